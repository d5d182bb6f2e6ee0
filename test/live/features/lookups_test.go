package features

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// named is a WorkloadEntry for a recorder whose address is a host name.
func (r *recorder) named(name, version, fields string) string {
	return strings.Replace(r.workload(name, version, fields), fmt.Sprint("address: ", r.address().Addr()),
		"address: localhost", 1)
}

// TestSelectedWorkloadsAreLookedUp is how proxies call workloads that ServiceEntries of resolution
// DNS select: by the host names and addresses of WorkloadEntries and of Pods.
func TestSelectedWorkloadsAreLookedUp(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml", livemesh.NewEcho("client", "v1")))
	a, b := newRecorder(t), newRecorder(t)
	resolved := func(resolution string) string {
		return livemesh.Object("ServiceEntry legacy", strings.Replace(legacy, "STATIC", resolution, 1))
	}
	calls := func(t *testing.T, m *livemesh.Mesh, path string, n int) {
		t.Helper()
		for range n {
			requireVersion(t, "recorder", m.Client("client-v1").Get("http://legacy.test"+path))
		}
	}
	m.Run("a name and an address", livemesh.File("vm.yaml",
		resolved("DNS"), a.named("vm-a", "v1", ""), b.workload("vm-b", "v2", ""),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		calls(t, m, "/both", 20)
		require.Positive(t, a.count("/both"))
		require.Positive(t, b.count("/both"))
		m.Run("subsets by their labels", livemesh.File("rule.yaml", livemesh.Object("DestinationRule legacy", `
host: legacy.test
subsets: [{name: v1, labels: {version: v1}}]
`))+virtual("legacy", `
hosts: [legacy.test]
http: [{route: [{destination: {host: legacy.test, subset: v1}}]}]
`), func(t *testing.T, m *livemesh.Mesh) {
			calls(t, m, "/v1", 10)
			require.Equal(t, 10, a.count("/v1"))
		})
	})
	m.Run("one that goes is called no more", livemesh.File("vm.yaml",
		resolved("DNS"), b.workload("vm-b", "v2", ""),
	), func(t *testing.T, m *livemesh.Mesh) {
		calls(t, m, "/left", 10)
		require.Equal(t, 10, b.count("/left"))
	})
	m.Run("the first of several", livemesh.File("vm.yaml",
		resolved("DNS_ROUND_ROBIN"), a.named("vm-a", "v1", ""), b.workload("vm-b", "v2", ""),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		calls(t, m, "/first", 10)
		require.Equal(t, 10, a.count("/first"))
	})
	m.Run("a name is no endpoint where nothing looks it up", livemesh.File("vm.yaml",
		resolved("STATIC"), a.named("vm-a", "v1", ""), b.workload("vm-b", "v2", ""),
	), func(t *testing.T, m *livemesh.Mesh) {
		calls(t, m, "/static", 10)
		require.Equal(t, 10, b.count("/static"))
	})
	m.Run("nobody", livemesh.File("vm.yaml", resolved("DNS")), func(t *testing.T, m *livemesh.Mesh) {
		requireStatus(t, 503, m.Client("client-v1").Get("http://legacy.test/nobody"))
	})
	m.Run("a Pod", livemesh.File("vm.yaml",
		strings.Replace(resolved("DNS"), "name: http, protocol", "name: http, targetPort: 8080, protocol", 1),
		livemesh.NewEcho("legacy", "v7"),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireVersion(t, "v7", m.Client("client-v1").Get("http://legacy.test/pod"))
	})
}

// TestLookupsFailOver is how the place of a caller decides on the order of endpoints that it looks
// up.
func TestLookupsFailOver(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.Node("n1", "eu/eu-1"), livemesh.Node("n2", "us/us-1"),
		livemesh.NewEcho("client", "v1").On("n1"), livemesh.NewEcho("client", "v2").On("n2"),
		livemesh.Object("ServiceEntry legacy", strings.Replace(legacy, "STATIC", "DNS", 1)),
	))
	eu, us := newRecorder(t), newRecorder(t)
	europe := livemesh.File("eu.yaml", eu.named("vm-eu", "v1", "locality: eu/eu-1"))
	america := livemesh.File("us.yaml", us.named("vm-us", "v2", "locality: us/us-1"))
	m.Apply(europe + america)
	require20 := func(t *testing.T, m *livemesh.Mesh, client, path string, by *recorder) {
		t.Helper()
		path = "/" + client + path
		for range 20 {
			requireVersion(t, "recorder", m.Client(client).Get("http://legacy.test"+path))
		}
		require.Equal(t, 20, by.count(path))
	}
	m.Run("outlier detection", rule("legacy",
		"host: legacy.test\ntrafficPolicy:\n  outlierDetection: {consecutive5xxErrors: 100}\n"),
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			require20(t, m, "client-v1", "/near", eu)
			require20(t, m, "client-v2", "/near", us)
			m.Delete("eu.yaml")
			m.Settle()
			require20(t, m, "client-v1", "/far", us)
			m.Apply(europe)
			require20(t, m, "client-v1", "/back", eu)
		})
	m.Run("distribute", rule("legacy", "host: legacy.test\ntrafficPolicy:\n  loadBalancer:\n    localityLbSetting:\n"+
		"      distribute: [{from: eu, to: {us: 100}}, {from: us, to: {eu: 100}}]\n"),
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			require20(t, m, "client-v1", "/parts", us)
			require20(t, m, "client-v2", "/parts", eu)
		})
	m.Run("labels", rule("legacy", "host: legacy.test\ntrafficPolicy:\n"+
		"  outlierDetection: {consecutive5xxErrors: 100}\n"+
		"  loadBalancer: {localityLbSetting: {failoverPriority: [version]}}\n"),
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			require20(t, m, "client-v1", "/labels", eu)
			require20(t, m, "client-v2", "/labels", us)
		})
}

// TestSelectedPodsAreCalledInMutualTLS: a Pod that takes nothing else answers a host that proxies
// look up.
func TestSelectedPodsAreCalledInMutualTLS(t *testing.T) {
	options, _ := agentMesh(t)
	m := livemesh.StartWith(t, options, autoTLS+livemesh.File("base.yaml",
		inTLS(livemesh.NewEcho("web", "v1")), livemesh.NewEcho("client", "v1"),
		livemesh.Object("PeerAuthentication strict", "selector: {matchLabels: {app: web}}\nmtls: {mode: STRICT}"),
		livemesh.Object("ServiceEntry web", `
hosts: [web.test]
ports: [{number: 80, name: http, targetPort: 8080, protocol: HTTP}]
location: MESH_INTERNAL
resolution: DNS
workloadSelector: {labels: {app: web}}
`)))
	m.RequireNoProblems()
	requireVersion(t, "v1", m.Client("client-v1").Get("http://web.test/"))
}
