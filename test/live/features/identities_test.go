package features

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// runsAs gives the pods of a workload a service account, which it defines beside it.
func runsAs(account, deployment string) string {
	return fmt.Sprintf("\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s, namespace: default}\n",
		account) +
		strings.Replace(deployment, "      nodeName:", "      serviceAccountName: "+account+"\n      nodeName:", 1)
}

// withoutRetries lets a failure show.
func withoutRetries(host string) string {
	return livemesh.Object("VirtualService once-"+strings.ReplaceAll(host, ".", "-"),
		fmt.Sprintf("hosts: [%[1]s]\nhttp: [{retries: {attempts: 0}, route: [{destination: {host: %[1]s}}]}]", host))
}

// TestServerIsTrustedIfItsAccountRunsTheService: a server is called in TLS of the mesh if its
// certificate is that of an account that runs the service.
func TestServerIsTrustedIfItsAccountRunsTheService(t *testing.T) {
	options, authority := agentMesh(t)
	c := newMixedCrowd(t, 1, authority) // with the certificate of the account crowd
	entry := func(account, more string) string {
		described := c.entry(0, 1, func(int) string { return ", labels: {security.istio.io/tlsMode: istio}" + account })
		return strings.Replace(described, "resolution:", "location: MESH_INTERNAL\n  "+more+"resolution:", 1)
	}
	m := livemesh.StartWith(t, options, autoTLS+livemesh.File("base.yaml",
		runsAs("web", inTLS(livemesh.NewEcho("web", "v1"))), livemesh.Service("web", "http:80:8080"),
		livemesh.NewEcho("client", "v1"), livemesh.Service("client", "http:80:8080")))
	m.RequireNoProblems()
	requireStatus(t, 200, m.Client("client-v1").Get("http://web/"))
	require.Contains(t, m.Admin("client-v1", "/config_dump?resource=dynamic_active_clusters"), spiffe("default", "web"))

	mesh := func(more string) string {
		return strings.Replace(autoTLS, "enableAutoMtls: true", "{enableAutoMtls: true"+more+"}", 1)
	}
	wrongNames := func() string { // how often the client found one
		return m.Admin("client-v1", `/stats?filter=crowd\.test.*ssl\.fail_verify_san`)
	}
	with := rule("crowd", "host: crowd.test\ntrafficPolicy: {tls: {mode: ISTIO_MUTUAL}}\n")
	elsewhere := mesh(", trustDomain: elsewhere")
	for _, c := range []struct {
		name, files string
		believed    bool
	}{
		{"the account", entry(", serviceAccount: crowd", ""), true},
		{"another one", entry(", serviceAccount: another", ""), false},
		{"a name beside it", entry(", serviceAccount: another",
			"subjectAltNames: ["+spiffe("default", "crowd")+"]\n  "), true},
		{"nobody says which", entry("", ""), true},
		{"in another trust domain", elsewhere + entry(", serviceAccount: crowd", ""), false},
		{"by an alias of it", mesh(", trustDomain: elsewhere, trustDomainAliases: [cluster.local]") +
			entry(", serviceAccount: crowd", ""), true},
		{"a rule, the account", with + entry(", serviceAccount: crowd", ""), true},
		{"a rule, another one", with + entry(", serviceAccount: another", ""), false},
		{"a rule, a name beside it", with +
			entry(", serviceAccount: another", "subjectAltNames: ["+spiffe("default", "crowd")+"]\n  "), true},
		{"a rule, nobody says which", with + entry("", ""), true},
	} {
		m.Apply(mesh("")) // what a case may have changed
		m.Run(c.name, c.files, func(t *testing.T, m *livemesh.Mesh) {
			before := wrongNames()
			a := m.Client("client-v1").Get("http://crowd.test/")
			if c.believed {
				requireVersion(t, spiffe("default", "default"), a) // it tells who calls
				return
			}
			requireStatus(t, 503, a)
			require.NotEqual(t, before, wrongNames(), "for its name")
		})
	}
}

// TestRolloutToAnotherAccountFailsNoRequest: while the pods of a service are replaced by some of
// another account, there and back, no request fails.
func TestRolloutToAnotherAccountFailsNoRequest(t *testing.T) {
	options, _ := agentMesh(t)
	web := func(account string) string {
		return livemesh.File("web.yaml", runsAs(account, inTLS(livemesh.NewEcho("web", "v1").Replicas(2))))
	}
	m := livemesh.StartWith(t, options, autoTLS+web("first")+livemesh.File("base.yaml",
		livemesh.Service("web", "http:80:8080"), withoutRetries("web.default.svc.cluster.local"),
		livemesh.NewEcho("client", "v1"), livemesh.Service("client", "http:80:8080")))
	m.RequireNoProblems()
	believed := func(accounts ...string) bool {
		dump := m.Admin("client-v1", "/config_dump?resource=dynamic_active_clusters")
		for _, a := range []string{"first", "second"} {
			if strings.Contains(dump, spiffe("default", a)) != strings.Contains(strings.Join(accounts, " "), a) {
				return false
			}
		}
		return true
	}
	require.True(t, believed("first"))
	load := m.Client("client-v1").Load("http://web/")
	for _, account := range []string{"second", "first"} {
		m.Apply(web(account))
		m.Settle()
		m.Await("the accounts that are gone are believed no longer", func() bool { return believed(account) })
		load.Advance(50)
	}
	load.Stop()
}

// TestSwapToEndpointsOfAnotherAccountFailsNoRequest: a list goes from endpoints of one account to
// some of another, in one step. What meets the new ones before the new cluster is there is tried
// again, and no request fails.
func TestSwapToEndpointsOfAnotherAccountFailsNoRequest(t *testing.T) {
	options, authority := agentMesh(t)
	crowds := map[string]*crowd{
		"crowd": newMixedCrowd(t, 2, authority),
		"other": newMixedCrowdOf(t, "other", 2, authority),
	}
	entry := func(account string) string {
		described := crowds[account].entry(0, 2, func(int) string {
			return ", labels: {security.istio.io/tlsMode: istio}, serviceAccount: " + account
		})
		return strings.Replace(described, "resolution:", "location: MESH_INTERNAL\n  resolution:", 1)
	}
	m := livemesh.StartWith(t, options, autoTLS+entry("crowd")+livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.Service("client", "http:80:8080")))
	m.RequireNoProblems()
	load := m.Client("client-v1").Load("http://crowd.test/")
	for range 3 {
		for _, account := range []string{"other", "crowd"} {
			m.Apply(entry(account))
			load.Advance(10)
		}
	}
	load.Stop()
}
