package incluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	securityv1 "istio.io/api/security/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
)

// csrAddress is where istio-csr's chart has it serve.
const csrAddress = "cert-manager-istio-csr.cert-manager.svc:443"

// TestValuesOfIstioCSRAreHonoured: with the two values of istio-csr's documentation the control
// plane has the certificate that cert-manager puts into the Secret istiod-tls, so the API server
// and agents trust it. Proxies ask istio-csr for theirs, and these open streams.
func TestValuesOfIstioCSRAreHonoured(t *testing.T) {
	asRoot(t)
	c := startCluster(t, aggregatorRouting)
	c.api.InstallIstioCRDs(t)
	c.applyManifests(t, "--set", "global.caAddress="+csrAddress, "--set", "pilot.env.ENABLE_CA_SERVER=false")
	authority := certs.NewAuthority(t, "istio-csr")
	_, err := c.client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "istio-ca-root-cert"},
		Data:       map[string]string{"root-cert.pem": authority.PEM}, // istio-csr writes it into each namespace
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	own := authority.Issue(t, "istiod", certs.Names("istiod."+root+".svc"))
	mounted := writeFiles(t, map[string]string{
		"tls.crt": own.Certificate, "tls.key": own.Key, "ca.crt": authority.PEM,
	})
	deployment, err := c.client.AppsV1().Deployments(root).Get(t.Context(), "istiod", metav1.GetOptions{})
	require.NoError(t, err)
	t.Setenv("ENABLE_CA_SERVER", "false")
	r := c.playNode(t).serve(t, "default", "istiod", certificateFlags(t, deployment, mounted)...)
	eventually(t, func(ct require.TestingT) { require.Equal(ct, "Fail Fail", c.policies(ct)) })

	c.namespace(t, "shop", map[string]string{"istio-injection": "enabled"})
	eventually(t, func(ct require.TestingT) {
		pod, err := c.pod("shop", "web", nil, nil)
		require.NoError(ct, err)
		require.Equal(ct, csrAddress, environmentOf(pod, "istio-proxy")["CA_ADDR"])
	})
	agent := c.newPilotAgent(t, r)
	agent.address = planeOf(t, c) + ":15012"
	conn, ctx := agent.dial(t)
	_, err = securityv1.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx,
		&securityv1.IstioCertificateRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err), "another signs: %v", err)
	pair := authority.Issue(t, "web", certs.Identity("spiffe://cluster.local/ns/default/sa/default")).TLS(t)
	conn, ctx = agent.dial(t, pair)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: agent.node(t), TypeUrl: clusterType}))
	_, err = stream.Recv()
	require.NoError(t, err, "a certificate of istio-csr opens a stream")
	roots, err := c.client.CoreV1().ConfigMaps("default").Get(t.Context(), "istio-ca-root-cert", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, authority.PEM, roots.Data["root-cert.pem"], "Lateen writes no roots beside it")
}

// writeFiles writes files into a directory.
func writeFiles(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// certificateFlags returns the flags of a Deployment that name files of the Secret istiod-tls, with
// the directory in which a test has them.
func certificateFlags(t *testing.T, d *appsv1.Deployment, dir string) (flags []string) {
	t.Helper()
	spec := d.Spec.Template.Spec
	require.Equal(t, "istiod-tls", spec.Volumes[0].Secret.SecretName)
	mount := spec.Containers[0].VolumeMounts[0].MountPath
	for _, arg := range spec.Containers[0].Args {
		if flag, file, ok := strings.Cut(arg, "="+mount+"/"); ok {
			flags = append(flags, flag+"="+filepath.Join(dir, file))
		}
	}
	require.Len(t, flags, 4)
	return flags
}

// environmentOf returns the variables of a container of a Pod.
func environmentOf(pod *corev1.Pod, container string) map[string]string {
	all := map[string]string{}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		for _, v := range c.Env {
			if c.Name == container {
				all[v.Name] = v.Value
			}
		}
	}
	return all
}

// planeOf returns the address of the control plane's Pods.
func planeOf(t *testing.T, c *cluster) (address string) {
	t.Helper()
	eventually(t, func(ct require.TestingT) {
		pods, err := c.client.CoreV1().Pods(root).List(context.Background(),
			metav1.ListOptions{LabelSelector: "app=istiod"})
		require.NoError(ct, err)
		require.NotEmpty(ct, pods.Items)
		address = pods.Items[0].Status.PodIP
		require.NotEmpty(ct, address)
	})
	return address
}
