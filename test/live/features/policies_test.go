package features

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestPoliciesThatCannotBeKeptRefuseTraffic is what policies that protect do to traffic: what
// Lateen cannot keep of them refuses, and never leaves open.
func TestPoliciesThatCannotBeKeptRefuseTraffic(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"),
		livemesh.NewEcho("web", "v1").TCP(7000), livemesh.Service("web", "http:80:8080", "tcp:9000:7000"),
		livemesh.NewEcho("other", "v1"), livemesh.Service("other", "http:80:8080"),
		livemesh.GatewayPod(8080),
		livemesh.Object("Gateway public", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: [public.test]
`),
		livemesh.Object("VirtualService public", `
hosts: [public.test]
gateways: [public]
http:
- route: [{destination: {host: other}}]
`)))
	client, gateway := m.Client("client-v1"), m.Gateway("istio-ingress", 8080)
	// A changed listener serves the connections that it had for a while (docs/protocol.md, 1.5),
	// and those among Envoys last.
	turns := func(t *testing.T, m *livemesh.Mesh, status int, get func() livemesh.Answer) {
		t.Helper()
		m.Await("the new listener is used", func() bool { return get().Status == status })
		for range 3 {
			requireStatus(t, status, get())
		}
	}
	get := func(url string) func() livemesh.Answer {
		return func() livemesh.Answer { return client.Get(url) }
	}
	public := func() livemesh.Answer { return gateway.Get("/", livemesh.Host("public.test")) }
	open := func(t *testing.T, m *livemesh.Mesh) {
		t.Helper()
		turns(t, m, 200, get("http://web/"))
		_, err := line(m, "client-v1", 9000, "hello")
		require.NoError(t, err)
	}
	closed := func(t *testing.T, m *livemesh.Mesh) {
		t.Helper()
		turns(t, m, 403, get("http://web/"))
		_, err := line(m, "client-v1", 9000, "hello")
		require.Error(t, err)
	}
	othersGoOn := func(t *testing.T) {
		t.Helper()
		requireVersion(t, "v1", client.Get("http://other/"))
		requireVersion(t, "v1", public())
	}
	const ofWeb = "selector: {matchLabels: {app: web}}\n"
	policy := func(kind, spec string) string {
		return livemesh.File("policy.yaml", livemesh.Object(kind+" policy", ofWeb+spec))
	}
	open(t, m)

	m.Run("nothing is allowed", policy("AuthorizationPolicy", ""), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		closed(t, m)
		othersGoOn(t)
	})
	m.Run("another policy allows all", policy("AuthorizationPolicy", "")+livemesh.File("all.yaml",
		livemesh.Object("AuthorizationPolicy all", "rules: [{}]")), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		open(t, m)
	})
	m.Run("a caller without a certificate has no principal", policy("AuthorizationPolicy", `
rules:
- from: [{source: {principals: [cluster.local/ns/default/sa/default]}}]
`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		closed(t, m)
		othersGoOn(t)
	})
	m.Run("an ALLOW that cannot be kept allows nothing", policy("AuthorizationPolicy", `
rules:
- from: [{source: {ipBlocks: [nowhere]}}]
`), func(t *testing.T, m *livemesh.Mesh) {
		m.AwaitProblem("AuthorizationPolicy default/policy", "ipBlocks", "left out")
		closed(t, m)
		othersGoOn(t)
	})
	m.Run("a DENY that cannot be kept denies everything", policy("AuthorizationPolicy", `
action: DENY
rules:
- when: [{key: request.presenter, values: [a]}]
`), func(t *testing.T, m *livemesh.Mesh) {
		m.AwaitProblem("AuthorizationPolicy default/policy", "spec.rules", "matches every call")
		closed(t, m)
		othersGoOn(t)
	})
	m.Run("plaintext is refused where mutual TLS is wanted", policy("PeerAuthentication", "mtls: {mode: STRICT}"),
		func(t *testing.T, m *livemesh.Mesh) {
			m.AwaitProblem("PeerAuthentication default/policy", "spec.mtls.mode", "STRICT")
			closed(t, m)
			othersGoOn(t)
		})
	m.Run("one port of a workload takes mutual TLS alone",
		policy("PeerAuthentication", "portLevelMtls: {7000: {mode: STRICT}}"),
		func(t *testing.T, m *livemesh.Mesh) {
			turns(t, m, 200, get("http://web/"))
			_, err := line(m, "client-v1", 9000, "hello")
			require.Error(t, err)
		})
	m.Run("a workload of a strict mesh is permissive", livemesh.File("mesh.yaml",
		livemesh.Object("PeerAuthentication istio-system/default", "mtls: {mode: STRICT}"))+
		policy("PeerAuthentication", "mtls: {mode: PERMISSIVE}"), func(t *testing.T, m *livemesh.Mesh) {
		open(t, m)
		turns(t, m, 403, get("http://other/"))
	})
	m.Run("a gateway has a policy", livemesh.File("gateway.yaml", livemesh.Object("AuthorizationPolicy gateway", `
selector: {matchLabels: {istio: ingress}}
`)), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		turns(t, m, 403, public)
		turns(t, m, 200, get("http://other/"))
		open(t, m)
	})
	m.Run("gone again", "", func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		open(t, m)
		turns(t, m, 200, get("http://other/"))
		turns(t, m, 200, public)
	})
}
