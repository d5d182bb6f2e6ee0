package cluster

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cluster/inject"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

// injected runs Pods as the injection makes them: with the rules that istio-init sets, and the
// arguments, variables, files and rewritten probes of the template. They call each other under
// STRICT, and a workload outside of the mesh does not get in.
func injected(t *testing.T, c *cluster) {
	envoy, err := filepath.Abs(realenvoy.Binary(t))
	require.NoError(t, err)
	injector, err := inject.New(inject.Options{Namespace: rootNamespace}, inject.Texts{
		Values: `{"global": {"proxy": {"image": "lateen-proxy:test"}, "proxy_init": {"image": "lateen-proxy:test"}}}`,
		// Processes of this machine find Envoy and the control plane elsewhere than containers.
		Mesh: fmt.Sprintf("defaultConfig: {discoveryAddress: %q, binaryPath: %q, concurrency: 1, "+
			"terminationDrainDuration: 0.5s, proxyMetadata: {ISTIOD_SAN: %s}}", secureAddr(), envoy, serverName),
	})
	require.NoError(t, err)
	workloads, notes, err := injector.Documents(
		[]byte(echo("outer", "v1", 1)+"\n---\n"+echo("inner", "v1", 1)), c.namespace)
	require.NoError(t, err)
	require.Len(t, notes, 2)
	c.apply(t, string(workloads), bare(echo("stranger", "v1", 1)), livemesh.Service("inner", "http:80:8080"),
		livemesh.Object("PeerAuthentication inner", "selector: {matchLabels: {app: inner}}\nmtls: {mode: STRICT}"))
	c.ready(t, "outer-v1", "inner-v1", "stranger-v1")
	pod := c.pods(t, "app=inner")[0]
	require.Equal(t, "istio", pod.Labels["security.istio.io/tlsMode"])

	w := c.from(t, "app=outer")
	w.until(t, "http://inner/", "an answer", again(20, w, "http://inner/", ok))
	require.Equal(t, "spiffe://cluster.local/ns/"+c.namespace+"/sa/default", c.leaf(t, pod).URIs[0].String())
	c.from(t, "app=stranger").until(t, "http://"+pod.Status.PodIP+":8080/", "403, as STRICT refuses plaintext",
		status(http.StatusForbidden))
}
