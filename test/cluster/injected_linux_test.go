package cluster

import (
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cluster/inject"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

// injecting returns what the injection makes of workloads.
func injecting(t *testing.T, c *cluster, manifests ...string) string {
	envoy, err := filepath.Abs(realenvoy.Binary(t))
	require.NoError(t, err)
	injector, err := inject.New(inject.Options{Namespace: rootNamespace}, inject.Texts{
		Values: `{"global": {"proxy": {"image": "lateen-proxy:test"}, "proxy_init": {"image": "lateen-proxy:test"}}}`,
		// Processes of this machine find Envoy and the control plane elsewhere than containers.
		Mesh: fmt.Sprintf("defaultConfig: {discoveryAddress: %q, binaryPath: %q, concurrency: 1, "+
			"terminationDrainDuration: 0.5s, proxyMetadata: {ISTIOD_SAN: %s}}", secureAddr(), envoy, serverName),
	})
	require.NoError(t, err)
	workloads, notes, err := injector.Documents([]byte(strings.Join(manifests, "\n---\n")), c.namespace)
	require.NoError(t, err)
	require.Len(t, notes, len(manifests))
	return string(workloads)
}

// injected runs Pods as the injection makes them: with the rules that istio-init sets, and the
// arguments, variables, files and rewritten probes of the template. They call each other under
// STRICT, and a workload outside of the mesh does not get in.
func injected(t *testing.T, c *cluster) {
	c.apply(t, injecting(t, c, echo("outer", "v1", 1), echo("inner", "v1", 1)), bare(echo("stranger", "v1", 1)),
		livemesh.Service("inner", "http:80:8080"),
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

// seesCallers runs a Pod with TPROXY: its application sees the addresses of its callers, whether of
// the mesh or not, and its own when it calls itself by its service.
func seesCallers(t *testing.T, c *cluster) {
	const asks = "template:\n    metadata: {"
	seen := strings.Replace(echo("seen", "v1", 1), asks,
		asks+"annotations: {sidecar.istio.io/interceptionMode: TPROXY}, ", 1)
	require.Contains(t, seen, "TPROXY")
	c.apply(t, injecting(t, c, seen, echo("caller", "v1", 1)), bare(echo("passer", "v1", 1)),
		livemesh.Service("seen", "http:80:8080"))
	c.ready(t, "seen-v1", "caller-v1", "passer-v1")
	at := c.pods(t, "app=seen")[0].Status.PodIP
	for app, url := range map[string]string{
		"caller": "http://seen/", "passer": "http://" + at + ":8080/", "seen": "http://seen/",
	} {
		own := c.pods(t, "app="+app)[0].Status.PodIP
		c.from(t, "app="+app).until(t, url, "an answer that has seen "+own, func(a answer) bool {
			remote, err := netip.ParseAddrPort(a.echoed.Remote)
			return ok(a) && err == nil && remote.Addr().String() == own
		})
	}
}
