package features

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/testkit/policytable"
)

// TestPoliciesDecideAsDocumented runs the table of policies by traffic. What decided a call is
// explained by what the server's proxy holds, and the explanation has to be right.
func TestPoliciesDecideAsDocumented(t *testing.T) {
	options, _ := agentMesh(t)
	var m *livemesh.Mesh
	var why *explainer
	w := policytable.World{
		Workloads: netip.MustParsePrefix("127.0.0.1/8"),
		Do: func(r policytable.Request) (int, string) {
			status, shown := request(m, r)
			if status == http.StatusBadRequest { // no filter has seen it
				return status, shown
			}
			return status, shown + "\n" + why.request(r, status)
		},
		Connects: func(caller, server string, port int) bool {
			answered := connects(m, caller, server, port)
			why.connection(caller, server, port, answered)
			return answered
		},
		Await: func(what string, is func() bool) { m.Await(what, is) },
	}
	var servers []any
	for _, server := range []string{policytable.Allows, policytable.Denies} {
		servers = append(servers, inTLS(livemesh.NewEcho(server, "v1").TCP(policytable.Ports(server)...)))
	}
	m = livemesh.StartWith(t, options, livemesh.File("base.yaml", servers...)+
		livemesh.File("callers.yaml", livemesh.NewEcho("client", "v1"), livemesh.NewEcho("far", "v1").In("other"))+
		livemesh.File("policies.yaml", strings.Join(w.Manifests(), "")))
	for _, p := range m.Problems() {
		require.Contains(t, p.String(), "matches nothing", "only values that the table shows to match nothing are told")
	}
	why = newExplainer(t, m)
	w.Run(t)
}

// request sends a request of the table.
func request(m *livemesh.Mesh, r policytable.Request) (status int, shown string) {
	options := []livemesh.Option{livemesh.Method(r.Method)}
	for name, value := range r.Headers {
		options = append(options, livemesh.Header(name, value))
	}
	if r.Host != "" {
		options = append(options, livemesh.Host(r.Host))
	}
	client, base := m.Client("client-v1"), "http://"+r.Server+".default"
	switch r.Caller {
	case policytable.Far:
		client = m.Client("other/far-v1")
	case policytable.Plain:
		client, base = m.Gateway(r.Server+"-v1", policytable.HTTPPort), ""
		if r.HTTP2 {
			client = m.ClearHTTP2(r.Server+"-v1", policytable.HTTPPort)
		}
		options = append([]livemesh.Option{livemesh.Host(r.Server), livemesh.RawPath(r.Path)}, options...)
	}
	a := client.Get(base+r.Path, options...)
	return a.Status, a.String()
}

// connects reports whether a caller of the table gets an answer on a port.
func connects(m *livemesh.Mesh, caller, server string, port int) bool {
	var conn net.Conn
	switch caller {
	case policytable.Client:
		conn = m.Dial("client-v1", uint16(port))
	case policytable.Far:
		conn = m.Dial("other/far-v1", uint16(port))
	default:
		conn = m.DialPod(server+"-v1", uint16(port))
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return false
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && strings.Contains(answer, "hello")
}

// TestExternalAuthorizersAreAsked asks one authorizer by HTTP, which is the sample server, and one
// by gRPC.
func TestExternalAuthorizersAreAsked(t *testing.T) {
	options, _ := agentMesh(t)
	grpcPort, tokens := serveChecks(t, goodPaths{}), newSigner(t, "https://a.test")
	m := livemesh.StartWith(t, options, fmt.Sprintf(`
-- istio.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    extensionProviders:
    - name: by-http
      envoyExtAuthzHttp:
        service: guard.default.svc.cluster.local
        port: 80
        headersToUpstreamOnAllow: [x-sample-version]
        headersToDownstreamOnDeny: [x-sample-version]
    - name: by-grpc
      envoyExtAuthzGrpc: {service: checker.test, port: %d}
    - name: gone
      envoyExtAuthzGrpc: {service: nowhere.test, port: 80, statusOnError: "503"}
    - name: gone-open
      envoyExtAuthzGrpc: {service: nowhere.test, port: 80, failOpen: true}
`, grpcPort)+livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("guard", "guard"), livemesh.Service("guard", "http:80:8080"),
		livemesh.NewEcho("web", "v1").TCP(7000, 7001),
		livemesh.Service("web", "http:80:8080", "tcp:7000", "tcp-two:7001"),
		livemesh.Object("ServiceEntry checker", fmt.Sprintf(`
hosts: [checker.test]
resolution: STATIC
ports: [{number: %d, name: grpc, protocol: GRPC}]
endpoints: [{address: 127.0.0.1}]
`, grpcPort)),
		custom("http", "by-http", `to: [{operation: {ports: ["8080"], paths: ["/status/*", /asked]}}]`),
		custom("grpc", "by-grpc", `to: [{operation: {ports: ["8080"], paths: ["/grpc/*"]}}]`),
		custom("tcp", "by-grpc", `to: [{operation: {ports: ["7000"]}}]`),
		custom("tcp-by-http", "by-http", `to: [{operation: {ports: ["7001"]}}]`),
		custom("by-token", "by-http", `from: [{source: {requestPrincipals: ["*"]}}], `+
			`to: [{operation: {ports: ["8080"], paths: [/token]}}]`),
		authentication("tokens", "web", tokenRule(tokens, "")),
		custom("gone", "gone", `to: [{operation: {ports: ["8080"], paths: [/gone]}}]`),
		custom("gone-open", "gone-open", `to: [{operation: {ports: ["8080"], paths: [/gone-open]}}]`)))
	m.RequireNoProblems()
	get := func(path string) livemesh.Answer { return m.Client("client-v1").Get("http://web.default" + path) }

	a := get("/asked")
	requireStatus(t, 200, a)
	require.Equal(t, "guard", a.Echoed.Headers.Get("x-sample-version"), "the authorizer's header goes on")
	a = get("/status/401")
	requireStatus(t, 401, a)
	require.Equal(t, "guard", a.Header.Get("x-sample-version"), "the authorizer answers, not the workload")
	a = get("/not-asked")
	requireStatus(t, 200, a)
	require.Empty(t, a.Echoed.Headers.Get("x-sample-version"))
	a = get("/token")
	requireStatus(t, 200, a)
	require.Empty(t, a.Echoed.Headers.Get("x-sample-version"), "there is no token")
	a = m.Client("client-v1").Get("http://web.default/token", bearer(tokens.token()))
	requireStatus(t, 200, a)
	require.Equal(t, "guard", a.Echoed.Headers.Get("x-sample-version"), "tokens are verified before it is asked")
	requireStatus(t, 200, get("/grpc/good"))
	requireStatus(t, 403, get("/grpc/bad"))
	requireStatus(t, 503, get("/gone"))
	requireStatus(t, 200, get("/gone-open"))
	_, err := line(m, "client-v1", 7000, "hello")
	require.Error(t, err, "the authorizer by gRPC refuses connections")
	_, err = line(m, "client-v1", 7001, "hello")
	require.Error(t, err, "an authorizer by HTTP cannot be asked about connections")
}

func custom(name, provider, rule string) string {
	return livemesh.Object("AuthorizationPolicy "+name, fmt.Sprintf(
		"selector: {matchLabels: {app: web}}\naction: CUSTOM\nprovider: {name: %s}\nrules: [{%s}]\n", provider, rule))
}

// TestDryRunsAndWiderPolicies: a policy of a dry run decides nothing and is counted, and one of the
// root namespace is for the whole mesh.
func TestDryRunsAndWiderPolicies(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1"),
		livemesh.Service("web", "http:80:8080")))
	status := func(path string) int { return m.Client("client-v1").Get("http://web.default" + path).Status }
	rule := "selector: {matchLabels: {app: web}}\naction: %s\nrules: [{to: [{operation: {paths: [%s]}}]}]\n"
	dry := livemesh.DryRun(livemesh.Object("AuthorizationPolicy dry", fmt.Sprintf(rule, "DENY", "/dry")))
	m.Run("dry run", livemesh.File("dry.yaml", dry,
		livemesh.Object("AuthorizationPolicy marker", fmt.Sprintf(rule, "DENY", "/denied"))),
		func(t *testing.T, m *livemesh.Mesh) {
			m.Await("the policy is in force", func() bool { return status("/denied") == 403 })
			require.Equal(t, 200, status("/dry"))
			require.Regexp(t, `istio_dry_run_deny_\.shadow_denied: [1-9]`,
				m.Admin("web-v1", "/stats?filter=istio_dry_run"), "what it would refuse is counted")
		})
	m.Run("deny beats allow, and audit is no matter", livemesh.File("both.yaml",
		livemesh.Object("AuthorizationPolicy allow", fmt.Sprintf(rule, "ALLOW", `"/a*"`)),
		livemesh.Object("AuthorizationPolicy audit", fmt.Sprintf(rule, "AUDIT", `"*"`)),
		livemesh.Object("AuthorizationPolicy deny", fmt.Sprintf(rule, "DENY", "/ab"))),
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			m.Await("the policies are in force", func() bool { return status("/b") == 403 })
			require.Equal(t, 200, status("/a"))
			require.Equal(t, 403, status("/ab"))
		})
	m.Run("the root namespace", livemesh.File("root.yaml",
		livemesh.Object("AuthorizationPolicy istio-system/deny", fmt.Sprintf(rule, "DENY", "/root"))),
		func(t *testing.T, m *livemesh.Mesh) {
			m.Await("the policy is in force", func() bool { return status("/root") == 403 })
			require.Equal(t, 200, status("/a"))
		})
}

// TestPathsAreNormalizedAsTheMeshSays: a policy about /admin meets other spellings of it, by the
// level of pathNormalization.
func TestPathsAreNormalizedAsTheMeshSays(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml", livemesh.NewEcho("web", "v1"),
		livemesh.Service("web", "http:80:8080"), livemesh.Object("AuthorizationPolicy admin",
			`{action: DENY, rules: [{to: [{operation: {paths: [/admin]}}]}]}`)))
	spellings := []string{
		"/admin", "/x/../admin", "/./admin", "//admin", "/x//../admin", "/%2Fadmin", "/x%2F..%2Fadmin",
		"/x%5c..%5Cadmin",
	}
	for level, refused := range map[string]string{
		"NONE":                     "/admin",
		"BASE":                     "/admin /x/../admin /./admin",
		"MERGE_SLASHES":            "/admin /x/../admin /./admin //admin",
		"DECODE_AND_MERGE_SLASHES": "/admin /x/../admin /./admin //admin /%2Fadmin /x%2F..%2Fadmin /x%5c..%5Cadmin",
	} {
		config := "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, namespace: istio-system}\n" +
			"data: {mesh: \"pathNormalization: {normalization: " + level + "}\"}\n"
		m.Run(level, livemesh.File("istio.yaml", config), func(t *testing.T, m *livemesh.Mesh) {
			got := func() string {
				var all []string
				for _, path := range spellings {
					if m.Gateway("web-v1", 8080).Get(path).Status == 403 {
						all = append(all, path)
					}
				}
				return strings.Join(all, " ")
			}
			// A changed listener serves the connections that it had for a while.
			m.Await("refused are "+refused+", now "+got(), func() bool { return got() == refused })
		})
	}
}
