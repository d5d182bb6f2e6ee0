package features

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestSidecarLimitsWhatAWorkloadReaches is what Sidecar objects leave of a workload's view of the
// mesh: its config shrinks, and what is out of scope is refused or passed on, as the policy says.
func TestSidecarLimitsWhatAWorkloadReaches(t *testing.T) {
	inside, outside := newRecorder(t), newRecorder(t)
	port := outside.address().Port()
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.NewEcho("far", "v1").In("other"), livemesh.Service("other/far", "http:80:8080"),
		// A name that exists outside of the mesh too: the entry leads to one server, the name
		// itself to another.
		livemesh.Object("ServiceEntry other/local", fmt.Sprintf(`
hosts: [localhost]
ports: [{number: %d, name: http, protocol: HTTP}]
resolution: STATIC
endpoints: [{address: %s, ports: {http: %d}}]
`, port, inside.address().Addr(), inside.address().Port()))))
	local := fmt.Sprintf("http://localhost:%d/", port)
	all := map[string]int{}
	for _, w := range []string{"client-v1", "web-v1", "other/far-v1"} {
		all[w] = m.ConfigBytes(w)
	}
	requireVersion(t, "v1", m.Client("client-v1").Get("http://far.other/"))
	requireServer(t, inside, outside, m.Client("client-v1").Get(local+"in-scope"))

	shrinks := func(t *testing.T, m *livemesh.Mesh, workload string) {
		t.Helper()
		require.Less(t, m.ConfigBytes(workload), all[workload])
	}
	same := func(t *testing.T, m *livemesh.Mesh, workload string) {
		t.Helper()
		require.Equal(t, all[workload], m.ConfigBytes(workload))
	}
	const refuse = "\noutboundTrafficPolicy: {mode: REGISTRY_ONLY}\n"
	scoped := func(key, spec string) string {
		return livemesh.File("sidecar.yaml", livemesh.Object("Sidecar "+key, spec))
	}
	m.Run("of the mesh", scoped("istio-system/default", "egress: [{hosts: [./*]}]"+refuse),
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			for _, w := range []string{"client-v1", "other/far-v1"} {
				shrinks(t, m, w)
			}
			client := m.Client("client-v1")
			requireVersion(t, "v1", client.Get("http://web/"))
			requireStatus(t, 502, client.Get("http://far.other/"))
			requireStatus(t, 502, m.Client("other/far-v1").Get("http://web.default/"))
			requireServer(t, inside, outside, m.Client("other/far-v1").Get(local+"own-namespace"))
		})
	m.Run("of a namespace", scoped("istio-system/default", "egress: [{hosts: [./*]}]"+refuse)+
		livemesh.File("own.yaml", livemesh.Object("Sidecar own",
			"egress: [{hosts: [other/*]}]"+refuse)), func(t *testing.T, m *livemesh.Mesh) {
		client := m.Client("client-v1")
		requireVersion(t, "v1", client.Get("http://far.other/"))
		requireStatus(t, 502, client.Get("http://web/"))
		requireStatus(t, 502, m.Client("other/far-v1").Get("http://web.default/"))
	})
	m.Run("of some workloads", livemesh.File("sidecar.yaml", livemesh.Object("Sidecar narrow", `
workloadSelector: {labels: {app: client}}
egress: [{hosts: [./web.default.svc.cluster.local]}]`+refuse)), func(t *testing.T, m *livemesh.Mesh) {
		shrinks(t, m, "client-v1")
		same(t, m, "web-v1")
		same(t, m, "other/far-v1")
		requireVersion(t, "v1", m.Client("client-v1").Get("http://web/"))
		requireStatus(t, 502, m.Client("client-v1").Get("http://far.other/"))
		requireVersion(t, "v1", m.Client("web-v1").Get("http://far.other/"))
	})
	m.Run("what is out of scope is passed on", scoped("narrow",
		"egress: [{hosts: [./*]}]\noutboundTrafficPolicy: {mode: ALLOW_ANY}\n"), func(t *testing.T, m *livemesh.Mesh) {
		shrinks(t, m, "client-v1")
		requireServer(t, outside, inside, m.Client("client-v1").Get(local+"passed-on"))
		requireServer(t, inside, outside, m.Client("other/far-v1").Get(local+"not-for-others"))
	})
	m.Run("what is out of scope is refused", scoped("narrow", "egress: [{hosts: [./*]}]"+refuse),
		func(t *testing.T, m *livemesh.Mesh) {
			requireStatus(t, 502, m.Client("client-v1").Get(local))
		})
	m.Run("what is excluded is refused",
		scoped("narrow", "egress: [{hosts: ['*/*', '~other/*.cluster.local']}]"+refuse),
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			requireVersion(t, "v1", m.Client("client-v1").Get("http://web/"))
			requireStatus(t, 502, m.Client("client-v1").Get("http://far.other/"))
		})
	m.Run("what is out of scope goes to a proxy", scoped("narrow", `
egress: [{hosts: [./*]}]
outboundTrafficPolicy: {mode: ALLOW_ANY, egressProxy: {host: web, port: {number: 80}}}`),
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			a := m.Client("client-v1").Get(local + "by-proxy")
			requireVersion(t, "v1", a)
			require.Zero(t, outside.count("/by-proxy"))
			requireServer(t, inside, outside, m.Client("other/far-v1").Get(local+"not-by-proxy"))
		})
	m.Run("a bad one hides rather than shows", scoped("narrow", `egress: [{hosts: ["web"]}]`+refuse),
		func(t *testing.T, m *livemesh.Mesh) {
			m.AwaitProblem("Sidecar default/narrow", "spec.egress[0].hosts[0]", "web")
			requireStatus(t, 502, m.Client("client-v1").Get("http://web/"))
			requireStatus(t, 502, m.Client("client-v1").Get("http://far.other/"))
		})
	m.Run("gone again", "", func(t *testing.T, m *livemesh.Mesh) {
		for w := range all {
			same(t, m, w)
		}
		requireVersion(t, "v1", m.Client("client-v1").Get("http://far.other/"))
	})
}

// requireServer requires that the one server answered, and the other saw nothing of it.
func requireServer(t *testing.T, want, other *recorder, a livemesh.Answer) {
	t.Helper()
	requireVersion(t, "recorder", a)
	require.Equal(t, 1, want.count(a.Echoed.Path))
	require.Zero(t, other.count(a.Echoed.Path))
}
