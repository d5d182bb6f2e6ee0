package apiserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

// gateway is a running Envoy of a gateway workload, the only one of its namespace: a Pod with a
// service account of its own, on a loopback address of its own.
type gateway struct {
	m                  *mesh
	namespace, address string
	admin              string // where Envoy's own interface is
}

// gatewayAccount is the service account of gateways' Pods.
const gatewayAccount = "gateway"

// runGateway makes a namespace with a gateway workload that has the label app: <namespace>-gateway,
// and is served by one replica.
func (m *mesh) runGateway(replica *lateenserve.Process, namespace, address string) *gateway {
	m.t.Helper()
	ctx, name := m.t.Context(), namespace+"-gateway"
	_, err := m.core.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(m.t, err)
	accounts := m.core.CoreV1().ServiceAccounts(namespace)
	_, err = accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: gatewayAccount}},
		metav1.CreateOptions{})
	require.NoError(m.t, err)
	pod := m.api.RunPod(m.t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			ServiceAccountName: gatewayAccount,
			Containers: []corev1.Container{{
				Name: "istio-proxy", Image: "envoy", Args: []string{"proxy", "router"},
			}},
		},
	}, address)
	m.letReadSecrets(namespace, gatewayAccount)
	token, err := accounts.CreateToken(ctx, gatewayAccount,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences: []string{"istio-ca"},
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				Kind:       "Pod",
				APIVersion: "v1",
				Name:       name,
				UID:        pod.UID,
			},
		}}, metav1.CreateOptions{})
	require.NoError(m.t, err)

	g := &gateway{m: m, namespace: namespace, address: address}
	adminFile := filepath.Join(m.t.TempDir(), "admin")
	envoy := exec.Command(realenvoy.Binary(m.t), "--config-yaml", g.bootstrap(replica, token.Status.Token),
		"--admin-address-path", adminFile,
		"--concurrency", "1", "--disable-hot-restart", "--log-level", "error", "--drain-time-s", "1",
		"--drain-strategy", "immediate")
	envoy.Stderr = os.Stderr
	envoy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(m.t, envoy.Start())
	m.t.Cleanup(func() { _ = envoy.Process.Kill(); _ = envoy.Wait() })
	eventually(m.t, "Envoy says where it can be asked", func() bool {
		content, err := os.ReadFile(adminFile)
		g.admin = strings.TrimSpace(string(content))
		return err == nil && g.admin != ""
	})
	return g
}

// letReadSecrets gives an account the right that a gateway needs to have Secrets.
func (m *mesh) letReadSecrets(namespace, account string) {
	m.t.Helper()
	name := metav1.ObjectMeta{Name: account + "-sds"}
	_, err := m.core.RbacV1().Roles(namespace).Create(m.t.Context(), &rbacv1.Role{
		ObjectMeta: name,
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(m.t, err)
	_, err = m.core.RbacV1().RoleBindings(namespace).Create(m.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}, metav1.CreateOptions{})
	require.NoError(m.t, err)
}

// bootstrap is an Envoy's configuration at start: who it is, and where the control plane is.
func (g *gateway) bootstrap(replica *lateenserve.Process, token string) string {
	host, port, err := net.SplitHostPort(replica.XDS)
	require.NoError(g.m.t, err)
	name := g.namespace + "-gateway"
	return fmt.Sprintf(`
node:
  id: router~%[1]s~%[2]s.%[3]s~%[3]s.svc.cluster.local
  cluster: %[2]s
  metadata: {NAME: %[2]s, NAMESPACE: %[3]s, SERVICE_ACCOUNT: %[4]s, CLUSTER_ID: Kubernetes,
    INSTANCE_IPS: %[1]s, LABELS: {app: %[2]s}, PROXY_CONFIG: {}}
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
dynamic_resources:
  cds_config: {resource_api_version: V3, ads: {}, initial_fetch_timeout: 0s}
  lds_config: {resource_api_version: V3, ads: {}, initial_fetch_timeout: 0s}
  ads_config:
    api_type: DELTA_GRPC
    transport_api_version: V3
    set_node_on_first_message_only: true
    grpc_services:
    - envoy_grpc: {cluster_name: xds-grpc}
      initial_metadata: [{key: authorization, value: Bearer %[5]s}]
static_resources:
  clusters:
  - name: xds-grpc
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: xds-grpc
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %[6]s, port_value: %[7]s}}}}]}]
`, g.address, name, g.namespace, gatewayAccount, token, host, port)
}

// at is where the gateway takes connections.
func (g *gateway) at(port int) string { return net.JoinHostPort(g.address, strconv.Itoa(port)) }

// clusters are the names of all clusters that Envoy has from the control plane, but those without a
// host's name.
func (g *gateway) clusters(t *testing.T) (names []string) {
	t.Helper()
	var dump struct {
		Configs []struct {
			Cluster struct{ Name string }
		}
	}
	response, err := http.Get("http://" + g.admin + "/config_dump?resource=dynamic_active_clusters")
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &dump))
	for _, c := range dump.Configs {
		if strings.Contains(c.Cluster.Name, "|") {
			names = append(names, c.Cluster.Name)
		}
	}
	return names
}
