package features

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/testkit/wasmtest"
)

// extension is an object of a kind of extensions, of the workloads of an app.
func extension(key, app, spec string) string {
	return livemesh.Object(key, "selector: {matchLabels: {app: "+app+"}}\n"+strings.TrimLeft(spec, "\n"))
}

// inbound is the match of what web is asked.
const inbound = "match: [{mode: SERVER}]\n"

// note is a script that adds a word to a header of requests.
func note(word string) string {
	return "lua:\n  inlineCode: |\n    function envoy_on_request(handle)\n      local headers = handle:headers()\n" +
		"      headers:replace(\"x-order\", (headers:get(\"x-order\") or \"\") .. \"" + word + ",\")\n    end\n"
}

// noted is a TrafficExtension that adds its name to the header.
func noted(name, fields string) string {
	return extension("TrafficExtension "+name, "web", inbound+fields+note(name))
}

// isClosed has requests to web be refused, or fail.
func isClosed(m *filterRig) bool {
	status := m.client.Get("http://web/").Status
	return status == 403 || status >= 500
}

// wasmFile writes a module, and returns its URL.
func wasmFile(t *testing.T, name string, module []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, module, 0o600))
	return "file://" + file
}

// TestExtensionsChangeTraffic sends requests through real Envoys that run scripts and modules, and
// sees that each is gone again with its object.
func TestExtensionsChangeTraffic(t *testing.T) {
	m := newFilterRig(t, "")
	adds := wasmFile(t, "adds.wasm", wasmtest.AddsHeader("x-wasm", "added"))
	refuses := wasmFile(t, "refuses.wasm", wasmtest.Answers(418, "no tea"))
	const nowhere = "url: oci://registry.invalid/plugin:v1\n"
	for _, c := range []filtered{
		{"a script, where web is asked", noted("script", ""), sees("X-Order", "script,")},
		{"a script, where client asks", extension(
			"TrafficExtension script", "client", "match: [{mode: CLIENT}]\n"+note("client"),
		), sees("X-Order", "client,")},
		{"a script at a gateway", livemesh.Object("TrafficExtension script",
			"selector: {matchLabels: {istio: ingress}}\n"+note("edge")),
			func(m *filterRig) bool { return m.public().Echoed.Headers.Get("X-Order") == "edge," }},
		{"phases and priorities",
			noted("last", "") + noted("stats", "phase: STATS\n") + noted("authz5", "phase: AUTHZ\npriority: 5\n") +
				noted("authz10", "phase: AUTHZ\npriority: 10\n") + noted("authn", "phase: AUTHN\npriority: 0\n") +
				noted("authn-none", "phase: AUTHN\n"),
			sees("X-Order", "authn,authn-none,authz10,authz5,stats,last,")},
		{"a module of a file", extension("WasmPlugin adds", "web", inbound+"url: "+adds+"\n"), sees("X-Wasm", "added")},
		{"a module that answers", extension("TrafficExtension refuses", "web", inbound+"wasm: {url: "+refuses+"}\n"),
			hasStatus(418, "http://web/")},
		{"a module for a port", extension("WasmPlugin refuses", "web",
			"match: [{mode: SERVER, ports: [{number: 8080}]}]\nurl: "+refuses+"\n"), hasStatus(418, "http://web/")},
		{"a module that cannot be had", extension("WasmPlugin closed", "web", inbound+nowhere), isClosed},
	} {
		require.False(t, c.want(m), "%s: without the extension", c.name)
		m.Run(c.name, livemesh.File("extension.yaml", c.objects), func(*testing.T, *livemesh.Mesh) {
			m.RequireNoProblems()
			m.awaitSoon("the extension is in force", c.want)
		})
		m.Settle()
		m.awaitSoon("the extension is gone", func(m *filterRig) bool { return !c.want(m) })
	}
}

// TestExtensionsThatMayFailLetPass: a module that cannot be had and fails open changes nothing,
// behind one that is there.
func TestExtensionsThatMayFailLetPass(t *testing.T) {
	m := newFilterRig(t, "")
	m.Run("open", livemesh.File("extension.yaml", extension("WasmPlugin open", "web",
		inbound+"url: oci://registry.invalid/plugin:v1\nfailStrategy: FAIL_OPEN\n")+noted("script", "")),
		func(*testing.T, *livemesh.Mesh) {
			m.RequireNoProblems()
			m.awaitSoon("the script is in force", sees("X-Order", "script,"))
			require.Equal(t, 200, m.client.Get("http://web/").Status)
		})
}

// TestExtensionsStandBesidePolicies: a policy decides by what a script of the phase AUTHZ has
// added, and before those that stand behind it.
func TestExtensionsStandBesidePolicies(t *testing.T) {
	m := newFilterRig(t, livemesh.File("policy.yaml", livemesh.Object("AuthorizationPolicy noted", `
selector: {matchLabels: {app: web}}
rules:
- when: [{key: "request.headers[x-order]", values: ["authn,authz,*"]}]
`)))
	m.awaitSoon("the policy refuses", hasStatus(403, "http://web/"))
	scripts := noted("last", "") + noted("stats", "phase: STATS\n")
	m.Run("behind", livemesh.File("extension.yaml", scripts), func(*testing.T, *livemesh.Mesh) {
		require.Equal(t, 403, m.client.Get("http://web/").Status)
	})
	scripts += noted("authz", "phase: AUTHZ\n") + noted("authn", "phase: AUTHN\n")
	m.Run("before", livemesh.File("extension.yaml", scripts), func(*testing.T, *livemesh.Mesh) {
		m.awaitSoon("the policy lets pass", sees("X-Order", "authn,authz,stats,last,"))
	})
	m.Settle()
	m.awaitSoon("the policy refuses again", hasStatus(403, "http://web/"))
}

// TestExtensionsWithMistakesClose: what was to be guarded is refused, and the object says why.
func TestExtensionsWithMistakesClose(t *testing.T) {
	m := newFilterRig(t, "")
	for _, c := range []struct {
		name, fields, path string
		status             int
	}{
		{"a scheme", "url: ftp://a.test/a\n", "spec.url", 403},
		{"a pull secret", "url: oci://a.test/plugin\nimagePullSecret: pull\n", "spec.imagePullSecret", 403},
		{"a checksum", "url: oci://a.test/plugin\nsha256: a\nfailStrategy: FAIL_OPEN\n", "spec.sha256", 200},
	} {
		m.Run(c.name, livemesh.File("extension.yaml", extension("WasmPlugin mistaken", "web", inbound+c.fields)),
			func(*testing.T, *livemesh.Mesh) {
				require.NotEmpty(t, m.ProblemsWith("WasmPlugin default/mistaken", c.path), "%v", m.Problems())
				m.awaitSoon("it is closed or open", hasStatus(c.status, "http://web/"))
			})
		m.Settle()
		m.awaitSoon("it is open", hasStatus(200, "http://web/"))
	}
}

// TestConnectionsPassExtensions: a module for connections that cannot be had closes them, or lets
// them pass.
func TestConnectionsPassExtensions(t *testing.T) {
	m := newFilterRig(t, "")
	greets := func() bool {
		answer, err := line(m.Mesh, "client-v1", 9000, "hello")
		return err == nil && answer != ""
	}
	m.Await("connections pass", greets)
	for strategy, passes := range map[string]bool{"FAIL_CLOSE": false, "FAIL_OPEN": true} {
		m.Run(strategy, livemesh.File("extension.yaml", extension("WasmPlugin connections", "web",
			"type: NETWORK\nfailStrategy: "+strategy+"\nmatch: [{mode: SERVER, ports: [{number: 7000}]}]\n"+
				"url: oci://registry.invalid/plugin:v1\n")+noted("script", "")),
			func(*testing.T, *livemesh.Mesh) {
				m.RequireNoProblems()
				m.awaitSoon("the configuration is in force", sees("X-Order", "script,"))
				m.Await("connections pass or are closed", func() bool { return greets() == passes })
			})
		m.Settle()
		m.Await("connections pass", greets)
	}
}
