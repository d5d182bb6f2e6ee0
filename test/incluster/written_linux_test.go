package incluster

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// TestWrittenObjectsRoute: the objects that the documentation of programs has, or that their source
// writes, are accepted, and proxies get their routes.
func TestWrittenObjectsRoute(t *testing.T) {
	e := newEstate(t)
	gateway := e.gateway(t)
	t.Run("Knative", func(t *testing.T) { e.knative(t, gateway) })
	t.Run("external-dns", func(t *testing.T) {
		e.applyFile(t, "external-dns")
		e.areAccepted(t, kinds.VirtualService)
		routed(t, gateway, "httpbin.example.com", "httpbin 100", "httpbin 100")
	})
	e.hasNoErrors(t)
}

// knative: gateways and sidecars split requests by revision, answer the probes of net-istio, and
// reach Pods of a revision directly.
func (e *estate) knative(t *testing.T, gateway string) {
	e.namespace(t, "knative-serving", nil)
	e.applyFile(t, "knative")
	e.areAccepted(t, kinds.VirtualService, kinds.DestinationRule)

	// The first route is for probes: they ask which version of the routes a proxy has.
	const revisions = "hello-00001 90, hello-00002 10"
	for _, of := range []struct{ admin, domain string }{
		{gateway, "hello.test.example.com"}, {gateway, "hello.test.svc.cluster.local"},
		{e.sidecar, "hello.test.svc.cluster.local"},
	} {
		routed(t, of.admin, of.domain, revisions, revisions)
		routes := host(t, of.admin, of.domain).Routes
		require.Contains(t, string(routes[0].Match), `"k-network-hash"`)
		require.Equal(t, headers{"K-Network-Hash": "9fd41b"}, routes[0].headers())
		require.Empty(t, routes[1].headers())
		require.Empty(t, routes[1].Route.Retries, "retries: {} is none")
		for _, revision := range routes[1].Route.Weighted.Clusters {
			require.Equal(t, headers{
				"Knative-Serving-Namespace": "test", "Knative-Serving-Revision": destination(revision.Name),
			}, revision.headers())
		}
	}
	routed(t, e.sidecar, "hello-00001-private.test.svc.cluster.local", "direct 100", "normal 100")
	require.Equal(t, "ORIGINAL_DST", discoveryOf(t, e.sidecar,
		"outbound|80|direct|hello-00001-private.test.svc.cluster.local"))
}

// applyFile applies testdata/estate/NAME.yaml.
func (e *estate) applyFile(t *testing.T, name string) {
	t.Helper()
	objects, err := os.ReadFile("testdata/estate/" + name + ".yaml")
	require.NoError(t, err)
	e.applyAll(t, string(objects))
}
