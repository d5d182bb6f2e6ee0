package features

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// TestRefusedResourceHarmsNoOther is about what Envoy itself refuses, though it is right as far as
// anyone can tell from the manifests. The refusal is counted and shown in Envoy's words, kept to
// the resource that caused it, and goes away with its cause; the proxy that refused and all others
// go on serving, and go on taking changes.
func TestRefusedResourceHarmsNoOther(t *testing.T) {
	m := badMesh(t, livemesh.Options{})

	runUnderLoad(m, "a listener whose port is taken on one proxy's machine",
		func(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
			const port = 9000
			client := m.Pod("client-v1")
			thief, err := net.Listen("tcp", fmt.Sprintf("%s:%d", client.Outbound, port))
			require.NoError(t, err)
			t.Cleanup(func() { _ = thief.Close() })
			before := m.Metric("pilot_total_xds_rejects", map[string]string{"type": "lds"})

			lines := livemesh.NewEcho("lines", "v1").HTTP().TCP(7000).String()
			m.Write("lines.yaml", lines+livemesh.Service("lines", "tcp:9000:7000"))
			m.Settle()
			require.Greater(t, m.Metric("pilot_total_xds_rejects", map[string]string{"type": "lds"}), before)
			requireRefused(t, m, "client-v1", resource.Listener, "127.0.0.1_9000", "Address already in use")
			requireAccepts(t, m, "web-v1")
			answer, err := line(m, "web-v1", port, "hello")
			require.NoError(t, err)
			require.Equal(t, "v1 hello", answer)
			takesChanges(t, m)

			m.Write("lines.yaml", lines+livemesh.Service("lines", "tcp:9001:7000"))
			m.Settle()
			requireAccepts(t, m, "client-v1")
			answer, err = line(m, "client-v1", 9001, "hello")
			require.NoError(t, err)
			require.Equal(t, "v1 hello", answer)
			m.Delete("lines.yaml")
		})
	runUnderLoad(m, "a cluster with a certificate that is not there",
		func(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
			before := m.Metric("pilot_total_xds_rejects", map[string]string{"type": "cds"})
			secured := strings.TrimPrefix(rule("web-v2", `
host: web
subsets:
- name: v1
  labels: {version: v1}
- name: v2
  labels: {version: v2}
  trafficPolicy:
    tls: {mode: MUTUAL, clientCertificate: /nowhere/cert.pem, privateKey: /nowhere/key.pem}
`), "-- rule-web-v2.yaml --\n")
			// before web in the total order
			m.Write("a-rule.yaml", strings.Replace(secured, "name: web-v2", "name: a-web", 1))
			m.Settle()
			require.Greater(t, m.Metric("pilot_total_xds_rejects", map[string]string{"type": "cds"}), before)
			requireRefused(t, m, "client-v1", resource.Cluster, "outbound|80|v2|web.default.svc.cluster.local",
				"/nowhere/")
			require.Contains(t, m.Monitoring("/debug/syncz"), "/nowhere/", "Envoy's words are shown")
			require.True(t, m.Client("client-v1").Get("http://web/").OK())
			takesChanges(t, m)
			m.Delete("a-rule.yaml")
			m.Settle()
			requireAccepts(t, m, "client-v1")
		})
	runUnderLoad(m, "an expression that is too large for Envoy",
		func(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
			before := m.Metric("pilot_total_xds_rejects", map[string]string{"type": "vhds"})
			m.Write("web.yaml", webRoutes(tooLarge))
			m.Settle()
			require.Greater(t, m.Metric("pilot_total_xds_rejects", map[string]string{"type": "vhds"}), before)
			requireRefused(t, m, "client-v1", resource.VirtualHost, "http_proxy/web.default.svc.cluster.local:80",
				"program size")
			require.True(t, m.Client("client-v1").Get("http://web/").OK())
			m.Delete("web.yaml")
			m.Settle()
			requireAccepts(t, m, "client-v1") // it has what it should: the version that it never gave up
			m.Write("web.yaml", webRoutes(goodRoutes))
			m.Settle()
			requireAccepts(t, m, "client-v1")
			requireVersion(t, "v2", m.Client("client-v1").Get("http://web/two"))
			m.Delete("web.yaml")
		})
	runUnderLoad(m, "one of several virtual hosts that change at once", testOneRefused)
}

// tooLarge has an expression that is right, and too large a program for Envoy.
var tooLarge = strings.Replace(goodRoutes, "{prefix: /two}", `{regex: "/`+strings.Repeat(`\\pL{1000}`, 5)+`"}`, 1)

// testOneRefused: the others are taken, whether they change with it or later, the one stays as it
// was, and its next good version is taken.
func testOneRefused(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
	answering := func(host, answer string) string {
		return livemesh.Object("VirtualService "+host,
			fmt.Sprintf("hosts: [%s.test]\nhttp:\n- directResponse: {status: 200, body: {string: %s}}\n", host, answer))
	}
	all := func(web, answer string, hosts ...string) string {
		parts := []any{webRoutes(web)}
		for _, h := range hosts {
			parts = append(parts, answering(h, answer))
		}
		return livemesh.File("web.yaml", parts...)
	}
	check := func(version, answer string, hosts ...string) {
		t.Helper()
		requireVersion(t, version, m.Client("client-v1").Get("http://web/two"))
		for _, h := range hosts {
			require.Equal(t, answer, m.Client("client-v1").Get("http://"+h+".test/").Body)
		}
	}
	m.Apply(all(goodRoutes, "first", "a", "b", "gone"))
	requireAccepts(t, m, "client-v1")
	check("v2", "first", "a", "b", "gone")
	before := m.Metric("pilot_total_xds_rejects", map[string]string{"type": "vhds"})
	others := m.Client("client-v1").Load("http://web/two")
	m.Apply(all(tooLarge, "second", "a", "b", "new"))
	require.Greater(t, m.Metric("pilot_total_xds_rejects", map[string]string{"type": "vhds"}), before)
	requireRefused(t, m, "client-v1", resource.VirtualHost, "http_proxy/web.default.svc.cluster.local:80",
		"program size")
	require.Contains(t, m.Monitoring("/debug/syncz"), "program size", "Envoy's words are shown")
	check("v2", "second", "a", "b", "new")
	require.NotEqual(t, "first", m.Client("client-v1").Get("http://gone.test/").Body)
	m.Apply(all(tooLarge, "third", "a", "b", "new"))
	requireRefused(t, m, "client-v1", resource.VirtualHost, "http_proxy/web.default.svc.cluster.local:80",
		"program size")
	check("v2", "third", "a", "b", "new")
	others.Stop()
	m.Apply(all(strings.Replace(goodRoutes, subset("v2"), subset("v1"), 1), "fourth", "a", "b", "new"))
	requireAccepts(t, m, "client-v1")
	check("v1", "fourth", "a", "b", "new")
}

// requireRefused requires that a workload's proxy refused one resource of a type, and that one
// alone is kept from it.
func requireRefused(t *testing.T, m *livemesh.Mesh, workload string, typ resource.Type, name, words string) {
	t.Helper()
	for i, status := range m.Proxy(workload).Types {
		if resource.Type(i) == typ {
			require.Equal(t, []string{name}, status.Quarantined)
			require.Contains(t, status.Nack, words)
			continue
		}
		require.Empty(t, status.Quarantined, resource.Type(i))
	}
}

func requireAccepts(t *testing.T, m *livemesh.Mesh, workload string) {
	t.Helper()
	for i, status := range m.Proxy(workload).Types {
		require.Empty(t, status.Quarantined, resource.Type(i))
		require.Empty(t, status.Nack, resource.Type(i))
	}
}

// takesChanges requires that changes still reach those who refused something.
func takesChanges(t *testing.T, m *livemesh.Mesh) {
	t.Helper()
	client := m.Client("client-v1")
	for _, want := range []string{"v1", "v2", "v1"} {
		m.Apply(livemesh.File("change.yaml", livemesh.Object("VirtualService change", fmt.Sprintf(`
hosts: [change.test]
http:
- headers: {response: {set: {x-change: %s}}}
  route: [{destination: {host: steady, port: {number: 80}}}]
`, want))))
		require.Equal(t, want, client.Get("http://change.test/").Header.Get("x-change"))
	}
	m.Delete("change.yaml")
}
