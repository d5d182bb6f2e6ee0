package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

// TestProxiesMoveBetweenControlPlanes is docs/guides/migrate.md: two control planes of different
// revisions share a root, a Pod moves from the one to the other and back, and those that have moved
// and those that have not call each other in mutual TLS. The first is an istiod if $LATEEN_ISTIOD
// names the program pilot-discovery, and else a Lateen of the default revision.
func TestProxiesMoveBetweenControlPlanes(t *testing.T) {
	if testing.Short() {
		t.Skip("a live test")
	}
	c, p := newCluster(t), newPod(t)
	old := c.oldControlPlane()
	c.configure(p, application(t))
	c.run(p)

	p.write("certs/.keep", "")
	p.over(old, "MUTUAL_TLS")
	agent := p.run("OUTPUT_CERTS=certs")
	agent.await()
	ofOld, roots := p.certificate()
	p.awaitCall(&ofOld, roots)
	before := c.root()

	moved := c.lateen("lateen")
	require.NoError(t, p.call(&ofOld, roots), "another control plane changes nothing for who has not moved")
	require.NoError(t, agent.stop())
	require.NoError(t, os.RemoveAll(filepath.Join(p.dir, "certs")))
	p.write("certs/.keep", "")
	p.over(moved, "MUTUAL_TLS")
	agent = p.run("OUTPUT_CERTS=certs")
	agent.await()
	ofNew, rootsOfNew := p.certificate()
	require.NotEqual(t, ofOld.Certificate[0], ofNew.Certificate[0])
	require.NoError(t, p.call(&ofOld, roots), "old calls new")
	require.NoError(t, p.call(&ofNew, rootsOfNew), "new calls new")
	require.Error(t, p.call(nil, roots), "a caller without a certificate")
	require.Equal(t, before, c.root(), "the root stays as the first control plane made it")

	require.NoError(t, agent.stop())
	p.over(old, "MUTUAL_TLS")
	agent = p.run()
	agent.await()
	require.NoError(t, p.call(&ofNew, rootsOfNew), "new calls what has moved back")
	require.NoError(t, agent.stop())
}

// root returns the Secret of the mesh's root.
func (c *cluster) root() map[string][]byte {
	c.t.Helper()
	secret, err := c.core.CoreV1().Secrets("istio-system").Get(c.t.Context(), "istio-ca-secret", metav1.GetOptions{})
	require.NoError(c.t, err)
	return secret.Data
}

// lateen starts a Lateen of a revision, and returns where its agents connect.
func (c *cluster) lateen(revision string) string {
	c.t.Helper()
	lateen := lateenserve.Start(c.t, lateenserve.Options{
		Binary: binaries.lateen,
		Args:   []string{"--kubeconfig", c.api.Kubeconfig(), "--write", "--secure-xds-address", "127.0.0.1:0"},
		Env:    []string{"REVISION=" + revision},
	})
	return "localhost:" + lateen.Await(c.t, `flag=--secure-xds-address address=127\.0\.0\.1:(\d+)`)[1]
}

// oldControlPlane starts the one that proxies come from.
func (c *cluster) oldControlPlane() string {
	c.t.Helper()
	program := os.Getenv("LATEEN_ISTIOD")
	if program == "" {
		return c.lateen("default")
	}
	// Envoy as it is released has none of Istio's filters: without them istiod leaves them out.
	_, err := c.core.CoreV1().ConfigMaps("istio-system").Create(c.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "istio"},
		Data:       map[string]string{"mesh": "defaultProviders:\n  metrics: []\n"},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	local := func() string { return fmt.Sprint("127.0.0.1:", freePort(c.t)) }
	secure := freePort(c.t)
	istiod := exec.Command(program, "discovery", "--kubeconfig", c.api.Kubeconfig(), "--clusterID", "Kubernetes",
		"--secureGRPCAddr", fmt.Sprint("127.0.0.1:", secure), "--httpAddr", local(), "--monitoringAddr", local(),
		"--httpsAddr", local(), "--grpcAddr", local(), "--ctrlz_port", "0")
	istiod.Dir = c.t.TempDir()
	istiod.Env = append(os.Environ(), "POD_NAMESPACE=istio-system", "POD_NAME=istiod-0", "REVISION=default",
		"INJECTION_WEBHOOK_CONFIG_NAME=", "VALIDATION_WEBHOOK_CONFIG_NAME=", "ISTIOD_CUSTOM_HOST=localhost",
		"PILOT_ENABLE_METADATA_EXCHANGE=false", "PILOT_ENABLE_ALPN_FILTER=false")
	require.NoError(c.t, istiod.Start())
	c.t.Cleanup(func() {
		_ = istiod.Process.Kill()
		_ = istiod.Wait()
	})
	return fmt.Sprint("localhost:", secure)
}
