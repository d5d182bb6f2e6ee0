package incluster

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

// istioctlIsServed asks as istioctl does: over the TLS port, with a token of the service account
// default of the root namespace, as a node that does not exist and with a nonce that nobody gave.
func (c *cluster) istioctlIsServed(t *testing.T, r *replica) {
	ask := func(namespace string) (*discoveryv3.DiscoveryResponse, error) {
		agent := &pilotAgent{
			roots: c.roots(t), address: fmt.Sprintf("127.0.0.1:%d", r.ports["secure-xds"]),
			token: c.workloadToken(t, namespace),
		}
		conn, ctx := agent.dial(t)
		stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
		require.NoError(t, err)
		says, err := structpb.NewStruct(map[string]any{
			"GENERATOR": "event", "SERVICE_ACCOUNT": "default", "NAMESPACE": namespace,
			"ISTIO_VERSION": "65536.65536.65536",
		})
		require.NoError(t, err)
		require.NoError(t, stream.Send(&discoveryv3.DiscoveryRequest{
			Node:    &corev3.Node{Id: "sidecar~10.9.0.9~test-1.default~default.svc.cluster.local", Metadata: says},
			TypeUrl: "istio.io/debug/syncz", ResponseNonce: "2026-01-01 00:00:00 +0000 UTC",
		}))
		return stream.Recv()
	}
	answer, err := ask(root)
	require.NoError(t, err)
	require.Contains(t, answer.GetControlPlane().GetIdentifier(), `"Component":"istiod"`)
	for _, resource := range answer.GetResources() {
		require.NoError(t, resource.UnmarshalTo(&statusv3.ClientConfig{}))
	}
	answer, err = ask("kube-system")
	require.NoError(t, err)
	require.Empty(t, answer.GetResources(), "it has no proxies, and those of others are not shown")

	bare := &pilotAgent{roots: c.roots(t), address: fmt.Sprintf("127.0.0.1:%d", r.ports["secure-xds"])}
	conn, ctx := bare.dial(t)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	require.NoError(t, err)
	_, err = stream.Recv()
	require.Equal(t, codes.Unauthenticated, status.Code(err), err)
}

// istioctl is Istio's own istioctl, at a cluster with one replica of Lateen and one Envoy.
type istioctl struct{ binary, kubeconfig string }

// run runs istioctl and returns what it prints.
func (i *istioctl) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := i.try(t, args...)
	require.NoError(t, err, "istioctl %s:\n%s", strings.Join(args, " "), out)
	return out
}

func (i *istioctl) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, i.binary, append(args, "--kubeconfig", i.kubeconfig)...)
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), "HOME="+command.Dir, "KUBECONFIG="+i.kubeconfig)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	return out.String(), err
}

// TestIstioctlWorksUnchanged: Istio's own istioctl finds the control plane in the cluster, reaches
// it by port-forwards, and understands what it says.
func TestIstioctlWorksUnchanged(t *testing.T) {
	binary := tool.Path(t, "istioctl", "istioctl")
	c := newCluster(t)
	pod := c.scheduled(t)
	r := c.run(t, func(args []string) *exec.Cmd {
		command := exec.Command(c.server, append(args, "--kubeconfig", c.kubeconfig(t))...)
		command.Env = append(os.Environ(), "POD_NAME="+pod.Name, "LATEEN_ENABLE_FILTER_LISTS=false")
		return command
	})
	r.ready(t)
	admin := c.envoy(t, r)
	guarded := c.envoyOf(t, r, "api-0", "INTERCEPTION_MODE: REDIRECT, NOT_READ: %d")
	c.apply(t, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "istio", "namespace": "istio-system"},
		"data": {"mesh": "accessLogFile: /dev/stdout"}}`)
	own := root + "/" + pod.Name
	c.runPods(t, pod, kubelet(t, binary,
		fmt.Sprintf("--port=%s:15012=127.0.0.1:%d", own, r.ports["secure-xds"]),
		fmt.Sprintf("--port=%s:15017=127.0.0.1:%d", own, r.ports["webhook"]),
		fmt.Sprintf("--port=%s:15014=127.0.0.1:%d", own, r.ports["monitoring"]),
		fmt.Sprintf("--port=%s:9876=127.0.0.1:%d", own, r.ports["log-control"]),
		fmt.Sprintf("--port=default/web-0:15000=%s", admin),
		fmt.Sprintf("--port=default/api-0:15000=%s", guarded),
		fmt.Sprintf("--program=%s=%s", own, pilotDiscovery(t, c.server, r)),
	))
	tool := &istioctl{binary: binary, kubeconfig: c.api.Kubeconfig()}
	tool.says(t, []step{
		{"version", []string{"control plane version:", "data plane version: 1.32.0"}},
		{"proxy-status", []string{"web-0.default", pod.Name, "1.32.0", "CDS"}},
		{"proxy-status --verbosity 1", []string{"SYNCED"}},
		{"proxy-status -o json", []string{"web-0.default"}},
		{"proxy-status web-0.default", []string{"Clusters Match", "Listeners Match", "Routes Match"}},
		{"proxy-config cluster web-0.default", []string{"PassthroughCluster"}},
		{"proxy-config listener web-0.default", []string{"ADDRESS"}},
		{"proxy-config route web-0.default", []string{"http_proxy/istiod.istio-system.svc.cluster.local:15014"}},
		{"proxy-config endpoint web-0.default", []string{"OUTLIER CHECK", "xds-grpc"}},
		{"proxy-config bootstrap web-0.default", []string{"sidecar~10.9.0.2~web-0.default", "xds-grpc"}},
		{"proxy-config secret web-0.default", []string{"No active or warming secrets found"}},
		{"experimental internal-debug syncz", []string{"web-0.default"}},
		{"experimental internal-debug edsz?proxyID=web-0.default", []string{"{"}},
		{"experimental internal-debug --list", []string{"/debug/config_dump"}},
		{"experimental internal-debug nothing", []string{"please check all supported", "/debug/config_dump"}},
		{"experimental version", []string{"control plane version:"}},
		{"remote-clusters", []string{"Kubernetes", "synced", pod.Name}},
		{"analyze --namespace default", []string{"Info [IST0102] (Namespace default)"}},
	})
	c.apply(t, `{"apiVersion": "security.istio.io/v1", "kind": "AuthorizationPolicy",
		"metadata": {"name": "callers", "namespace": "default"}, "spec": {
			"selector": {"matchLabels": {"app": "api"}},
			"rules": [{"from": [{"source": {"namespaces": ["shop"]}}]}]}}`)
	routes, err := filepath.Abs("../../examples/bookinfo/gateway.yaml")
	require.NoError(t, err)
	workload := filepath.Join(t.TempDir(), "pod.yaml")
	require.NoError(t, os.WriteFile(workload, []byte(`{"apiVersion": "v1", "kind": "Pod",
		"metadata": {"name": "a", "namespace": "default"},
		"spec": {"containers": [{"name": "a", "image": "a"}]}}`), 0o600))
	eventually(t, func(ct require.TestingT) {
		out, err := tool.try(t, "experimental", "authz", "check", "api-0.default")
		require.NoError(ct, err)
		require.Contains(ct, out, "callers.default")
	})
	tool.says(t, []step{
		{"experimental describe pod api-0", []string{"Workload mTLS mode: PERMISSIVE"}},
		{"admin log", []string{"default", "everything that the control plane logs", "info"}},
		{"admin log --level default:debug", nil},
		{"admin log", []string{"debug"}},
		{"admin log --reset", nil},
		{"proxy-config all web-0.default", []string{"PassthroughCluster", "SERVICE FQDN", "ADDRESSES"}},
		{"proxy-config log web-0.default", []string{"active loggers"}},
		{"proxy-status api-0.default", []string{"Clusters Match", "Listeners Match"}},
		{"create-remote-secret --name east", []string{"istio-remote-secret-east"}},
		{"experimental envoy-stats web-0.default", []string{"cluster_manager.cds.version_text"}},
		{"experimental check-inject web-0.default", []string{"lateen-injector-istio-system", "No matching"}},
		{"kube-inject -f " + workload + " --webhookConfig lateen-injector-istio-system", []string{"istio-proxy"}},
		{"validate -f " + routes, []string{"is valid"}},
	})
	tool.configuresMachine(t)
	out, err := tool.try(t, "proxy-status", "web-1.default")
	require.Error(t, err, out)

	archive := t.TempDir()
	tool.run(t, "bug-report", "--context", "test", "--output-dir", archive,
		"--skip-cluster-dump", "--skip-netstat", "--skip-coredumps", "--skip-analyze")
	require.Contains(t, collected(t, filepath.Join(archive, "bug-report.tar.gz"), "syncz"), "web-0.default",
		"it asks with pilot-discovery in the control plane's container")
}

// step is a command of istioctl, and what it prints among other things.
type step struct {
	command string
	prints  []string
}

func (i *istioctl) says(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		out := i.run(t, strings.Fields(s.command)...)
		for _, text := range s.prints {
			require.Contains(t, out, text, "istioctl "+s.command)
		}
	}
}

// collected returns the files of an archive whose names have a text.
func collected(t *testing.T, archive, name string) string {
	t.Helper()
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	var all strings.Builder
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		require.NoError(t, err)
		if strings.Contains(header.Name, name) {
			_, err := io.Copy(&all, io.LimitReader(files, 1<<20))
			require.NoError(t, err)
		}
	}
}

// pilotDiscovery is a program that does in a container of Lateen what istiod's pilot-discovery does
// there, and returns its path.
func pilotDiscovery(t *testing.T, lateen string, r *replica) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "container")
	text := fmt.Sprintf("#!/bin/sh\nshift\nexec '%s' \"$@\" --monitoring-address 127.0.0.1:%d\n",
		lateen, r.ports["monitoring"])
	require.NoError(t, os.WriteFile(script, []byte(text), 0o700))
	return script
}

// scheduled returns the control plane's Pod as its Deployment has made it, which nobody runs yet.
func (c *cluster) scheduled(t *testing.T) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, func(ct require.TestingT) {
		pods, err := c.client.CoreV1().Pods(root).List(
			context.Background(), metav1.ListOptions{LabelSelector: "app=istiod"},
		)
		require.NoError(ct, err)
		require.NotEmpty(ct, pods.Items)
		pod = &pods.Items[0]
	})
	return pod
}

// runPods runs the Pods of the control plane and of the Envoy on a node whose kubelet has a port.
func (c *cluster) runPods(t *testing.T, own *corev1.Pod, kubelet int32) {
	t.Helper()
	c.node(t, kubelet)
	pods := c.client.CoreV1().Pods(root)
	require.NoError(t, pods.Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: own.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"},
	}, metav1.CreateOptions{}))
	_, err := pods.Patch(t.Context(), own.Name, types.MergePatchType, []byte(`{"status": {"phase": "Running",
		"conditions": [{"type": "Ready", "status": "True"}]}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	for name, address := range addresses {
		app, _, _ := strings.Cut(name, "-")
		c.api.RunPod(t, podOn("node-1", "default", name, "istio-proxy", map[string]string{"app": app}), address)
	}
}

// kubelet starts what forwards ports of Pods and runs programs in them, and returns its port.
func kubelet(t *testing.T, binary string, flags ...string) int32 {
	t.Helper()
	command := exec.Command(binary, append([]string{"kubelet"}, flags...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	command.Stderr = os.Stderr
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return int32(netip.MustParseAddrPort(strings.TrimSpace(line)).Port())
}

// envoyBootstrap is that of an Envoy without an agent.
const envoyBootstrap = `
node:
  id: sidecar~%[5]s~%[4]s.default~default.svc.cluster.local
  cluster: %[4]s.default
  metadata: {NAMESPACE: default, CLUSTER_ID: Kubernetes, ISTIO_VERSION: 1.32.0, %[3]s, PROXY_CONFIG: {}}
admin: {address: {socket_address: {address: 127.0.0.1, port_value: %[1]d}}}
dynamic_resources:
  ads_config: {api_type: DELTA_GRPC, transport_api_version: V3, set_node_on_first_message_only: true,
    grpc_services: [{envoy_grpc: {cluster_name: xds-grpc}}]}
  cds_config: {ads: {}, resource_api_version: V3}
  lds_config: {ads: {}, resource_api_version: V3}
static_resources:
  clusters:
  - name: xds-grpc
    type: STATIC
    connect_timeout: 10s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: xds-grpc
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %[2]d}}}}]}]
`

// addresses are those of the Pods with an Envoy, by name.
var addresses = map[string]string{"web-0": "10.9.0.2", "api-0": "10.9.0.3"}

// envoy runs an Envoy that is web-0 of namespace default, and returns its admin address.
func (c *cluster) envoy(t *testing.T, r *replica) string {
	t.Helper()
	return c.envoyOf(t, r, "web-0", "INTERCEPTION_MODE: NONE, HTTP_PROXY_PORT: %d")
}

// envoyOf runs an Envoy that is a Pod of namespace default, and returns its admin address. Its
// metadata has a place for a free port.
func (c *cluster) envoyOf(t *testing.T, r *replica, pod, metadata string) string {
	t.Helper()
	return r.runEnvoy(t, func(admin, free uint16) string {
		return fmt.Sprintf(envoyBootstrap, admin, r.ports["xds"], fmt.Sprintf(metadata, free), pod, addresses[pod])
	})
}

// runEnvoy runs an Envoy whose bootstrap has two free ports, and returns the address of the first,
// which is the admin's.
func (r *replica) runEnvoy(t *testing.T, bootstrap func(admin, free uint16) string) string {
	t.Helper()
	binary := realenvoy.Binary(t)
	var ports []uint16
	for range 2 {
		held, err := port.Reserve()
		require.NoError(t, err)
		t.Cleanup(held.Release)
		ports = append(ports, netip.MustParseAddrPort(held.Address).Port())
	}
	command := exec.Command(binary, "--config-yaml", bootstrap(ports[0], ports[1]), "--log-level", "warning",
		"--use-dynamic-base-id", "--concurrency", "1")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	command.Stderr = &log
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	admin := fmt.Sprintf("127.0.0.1:%d", ports[0])
	r.await(t, func(ct require.TestingT) {
		response, err := http.Get("http://" + admin + "/ready")
		require.NoError(ct, err)
		defer func() { _ = response.Body.Close() }()
		body, _ := io.ReadAll(response.Body)
		require.Equal(ct, http.StatusOK, response.StatusCode, string(body))
	})
	return admin
}

// podOn is a Pod that a kubelet would say runs on a node.
func podOn(node, namespace, name, container string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: container, Image: "test"}},
		},
	}
}
