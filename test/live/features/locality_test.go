package features

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestLocalityDecidesWhereRequestsGo is how the nodes of callers and of endpoints decide on where
// requests go: version N of web runs on node nN.
func TestLocalityDecidesWhereRequestsGo(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.Node("n1", "eu/eu-1"), livemesh.Node("n2", "eu/eu-2"), livemesh.Node("n4", "eu/eu-4"),
		livemesh.NewEcho("client", "v1").On("n1"), livemesh.NewEcho("client", "v3").On("n3"),
		livemesh.NewEcho("client", "v4").On("n4"),
		livemesh.NewEcho("web", "v2").On("n2"), livemesh.NewEcho("web", "v3").On("n3"),
	)+livemesh.File("n3.yaml", livemesh.Node("n3", "us/us-1"))+
		livemesh.File("v1.yaml", livemesh.NewEcho("web", "v1").On("n1"))+
		livemesh.File("web.yaml", livemesh.Service("web", "http:80:8080")))
	service := func(field string) string {
		return livemesh.File("web.yaml", strings.Replace(livemesh.Service("web", "http:80:8080"), "spec:\n",
			"spec:\n  "+field+"\n", 1))
	}
	ejecting := "host: web\ntrafficPolicy:\n  outlierDetection: {consecutive5xxErrors: 100}\n"

	requireReached(t, m, "client-v1", "v1", "v2", "v3")
	t.Run("failover", func(t *testing.T) { testFailover(t, m.With(t), ejecting) })
	m.Run("distribute", rule("web", "host: web\ntrafficPolicy:\n  loadBalancer:\n    localityLbSetting:\n"+
		"      distribute: [{from: eu, to: {us: 100}}]\n"),
		func(t *testing.T, m *livemesh.Mesh) {
			requireReached(t, m, "client-v1", "v3")
			requireReached(t, m, "client-v3", "v1", "v2", "v3")
		})
	m.Run("zones of a region are left to proxies", rule("web",
		"host: web\ntrafficPolicy: {loadBalancer: {zoneAwareLbSetting: {minClusterSize: 1}}}\n"),
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			requireReached(t, m, "client-v1", "v1", "v2")
			requireReached(t, m, "client-v4", "v1", "v2")
			requireReached(t, m, "client-v3", "v3")
		})
	m.Run("zones count for nothing", rule("web",
		"host: web\ntrafficPolicy: {loadBalancer: {zoneAwareLbSetting: {enabled: false}}}\n"),
		func(t *testing.T, m *livemesh.Mesh) {
			requireReached(t, m, "client-v1", "v1", "v2", "v3")
		})
	for _, c := range []struct {
		field  string
		v1, v4 []string
	}{
		{"internalTrafficPolicy: Local", []string{"v1"}, nil},
		{"trafficDistribution: PreferSameNode", []string{"v1"}, []string{"v1", "v2"}},
		{"trafficDistribution: PreferClose", []string{"v1"}, []string{"v1", "v2"}},
	} {
		t.Run(c.field, func(t *testing.T) {
			m := m.With(t)
			m.Apply(service(c.field))
			m.RequireNoProblems()
			requireReached(t, m, "client-v1", c.v1...)
			if c.v4 == nil {
				requireStatus(t, 503, m.Client("client-v4").Get("http://web/"))
				return
			}
			requireReached(t, m, "client-v4", c.v4...)
		})
	}
}

// testFailover takes the endpoints that are close away, one after the other, and then moves a node.
func testFailover(t *testing.T, m *livemesh.Mesh, ejecting string) {
	m.Apply(rule("web", ejecting))
	m.RequireNoProblems()
	requireReached(t, m, "client-v1", "v1")
	requireReached(t, m, "client-v3", "v3")
	requireReached(t, m, "client-v4", "v1", "v2")

	m.Delete("v1.yaml")
	m.Settle()
	requireReached(t, m, "client-v1", "v2")

	m.Apply(livemesh.File("n3.yaml", livemesh.Node("n3", "eu/eu-1")))
	requireReached(t, m, "client-v1", "v3")

	m.Apply(livemesh.File("v1.yaml", livemesh.NewEcho("web", "v1").On("n1")) +
		livemesh.File("n3.yaml", livemesh.Node("n3", "us/us-1")))
	requireReached(t, m, "client-v1", "v1")
	m.Delete("rule-web.yaml")
	m.Settle()
	requireReached(t, m, "client-v1", "v1", "v2", "v3")
}

// requireReached requires that the calls of a workload reach these versions of web and no others.
// That one of three is missed by 60 calls has a chance below 1e-10.
func requireReached(t *testing.T, m *livemesh.Mesh, client string, versions ...string) {
	t.Helper()
	got := m.With(t).Client(client).Tally(60, "http://web/", livemesh.ByVersion)
	total := 0
	for _, v := range versions {
		require.NotZero(t, got[v], "%s reaches %v", client, got)
		total += got[v]
	}
	require.Equal(t, 60, total, "%s reaches %v", client, got)
}
