package features

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestPoliciesDecideAsDocumented runs the table of cases by traffic: each rule stands in an ALLOW
// policy of the workload allows, and in a DENY policy of the workload denies. A call that the rule
// matches is let in by the one and refused by the other, and a call that it does not match the
// other way round.
func TestPoliciesDecideAsDocumented(t *testing.T) {
	options, _ := agentMesh(t)
	m := livemesh.StartWith(t, options, autoTLS+livemesh.File("base.yaml", servers(), callers())+
		livemesh.File("policies.yaml", casePolicies()...))
	m.RequireNoProblems()
	checked := 0
	for i, c := range requestCases() {
		for _, call := range c.calls {
			for _, server := range []string{"allows", "denies"} {
				matches := call[0] == '+'
				got := request(m, server, segment(i), call[1:])
				require.NoError(t, got.Err)
				assert.Equal(t, matches == (server == "allows"), got.Status != 403,
					"%s: %s: %s\nin %s: %s", server, c.why, call, c.rule, got)
				checked++
			}
		}
	}
	for i, c := range connectionCases() {
		for _, caller := range []string{"client", "far", "plain"} {
			allowed := strings.Contains(c.allows, caller)
			assert.Equal(t, allowed, connects(m, caller, "allows", i), "allows: %s: %s in %s", c.why, caller, c.rule)
			denied := strings.Contains(c.denies, caller)
			assert.Equal(t, !denied, connects(m, caller, "denies", i), "denies: %s: %s in %s", c.why, caller, c.rule)
			checked += 2
		}
	}
	require.Greater(t, checked, 300)
}

func segment(i int) string { return fmt.Sprintf("c%d", i) }

// Ports of the servers for the cases on connections: those of the one begin where the other's end.
const firstPort = 7000

func portOf(server string, i int) int {
	if server == "denies" {
		i += len(connectionCases())
	}
	return firstPort + i
}

// servers are the two workloads, with a port for each case on connections.
func servers() string {
	var b strings.Builder
	for _, server := range []string{"allows", "denies"} {
		ports, services := []int{}, []string{"http:80:8080"}
		for i := range connectionCases() {
			ports = append(ports, portOf(server, i))
			services = append(services, fmt.Sprintf("tcp-%d:%d", portOf(server, i), portOf(server, i)))
		}
		b.WriteString(inTLS(livemesh.NewEcho(server, "v1").TCP(ports...)) + livemesh.Service(server, services...))
	}
	return b.String()
}

func callers() string {
	return livemesh.NewEcho("client", "v1").String() + livemesh.NewEcho("far", "v1").In("other").String()
}

// casePolicies are the policies of all cases.
func casePolicies() []any {
	var all []any
	add := func(name, rule string) {
		for server, action := range map[string]string{"allows": "ALLOW", "denies": "DENY"} {
			port := 0
			if _, err := fmt.Sscanf(name, "tcp-%d", &port); err == nil {
				port = portOf(server, port)
			}
			spec := fmt.Sprintf("selector: {matchLabels: {app: %s}}\naction: %s\nrules: [{%s}]\n",
				server, action, strings.ReplaceAll(rule, "$p", fmt.Sprint(port)))
			all = append(all, livemesh.Object("AuthorizationPolicy "+server+"-"+name, spec))
		}
	}
	for i, c := range requestCases() {
		rule := c.rule
		if !strings.Contains(rule, "to:") {
			rule = strings.TrimPrefix(rule+`, to: [{operation: {paths: ["/$i/*"]}}]`, ", ")
		}
		// Without a port, a DENY on requests refuses all other connections.
		rule = strings.ReplaceAll(rule, "operation: {", `operation: {notPorts: [`+otherPorts()+`], `)
		if strings.Contains(c.rule, "orts:") {
			rule = strings.ReplaceAll(c.rule, "$others", otherPorts())
		}
		add(segment(i), strings.ReplaceAll(rule, "$i", segment(i)))
	}
	for i, c := range connectionCases() {
		add(fmt.Sprintf("tcp-%d", i), c.rule)
	}
	return all
}

// otherPorts are the ports of the cases on connections, as they stand in a list.
func otherPorts() string {
	var list []string
	for i := range 2 * len(connectionCases()) {
		list = append(list, fmt.Sprintf("%q", fmt.Sprint(firstPort+i)))
	}
	return strings.Join(list, ", ")
}

// request sends the request of a call.
func request(m *livemesh.Mesh, server, segment, call string) livemesh.Answer {
	fields := strings.Fields(call)
	path, options := "/x", []livemesh.Option{livemesh.Host(server)}
	for _, f := range fields[1:] {
		name, value, isHeader := strings.Cut(f, "=")
		switch {
		case strings.HasPrefix(f, "/"):
			path = f
		case !isHeader:
			options = append(options, livemesh.Method(f))
		case name == "host":
			options = append(options, livemesh.Host(value))
		default:
			options = append(options, livemesh.Header(name, value))
		}
	}
	target := "/" + segment + path
	switch fields[0] {
	case "client":
		return m.Client("client-v1").Get("http://"+server+".default"+target, options[1:]...)
	case "far":
		return m.Client("other/far-v1").Get("http://"+server+".default"+target, options[1:]...)
	}
	return m.Gateway(server+"-v1", 8080).Get(target, options...)
}

// connects reports whether a caller gets an answer on the port of a case.
func connects(m *livemesh.Mesh, caller, server string, i int) bool {
	port := uint16(portOf(server, i))
	var conn net.Conn
	switch caller {
	case "client":
		conn = m.Dial("client-v1", port)
	case "far":
		conn = m.Dial("other/far-v1", port)
	default:
		conn = m.DialPod(server+"-v1", port)
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
	grpcPort := checker(t)
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

// checker is an authorizer by gRPC that accepts requests to paths with "good" in them. It returns
// its port.
func checker(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	authv3.RegisterAuthorizationServer(server, goodPaths{})
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-ended })
	return listener.Addr().(*net.TCPAddr).Port
}

type goodPaths struct {
	authv3.UnimplementedAuthorizationServer
}

func (goodPaths) Check(_ context.Context, in *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	code := codes.PermissionDenied
	if strings.Contains(in.GetAttributes().GetRequest().GetHttp().GetPath(), "good") {
		code = codes.OK
	}
	return &authv3.CheckResponse{Status: &status.Status{Code: int32(code)}}, nil
}

// TestDryRunsAndWiderPolicies: a policy of a dry run decides nothing and is counted, and one of the
// root namespace is for the whole mesh.
func TestDryRunsAndWiderPolicies(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1"),
		livemesh.Service("web", "http:80:8080")))
	status := func(path string) int { return m.Client("client-v1").Get("http://web.default" + path).Status }
	rule := "selector: {matchLabels: {app: web}}\naction: %s\nrules: [{to: [{operation: {paths: [%s]}}]}]\n"
	dry := strings.Replace(livemesh.Object("AuthorizationPolicy dry", fmt.Sprintf(rule, "DENY", "/dry")),
		"namespace: default", `namespace: default, annotations: {istio.io/dry-run: "true"}`, 1)
	m.Run("dry run", livemesh.File("dry.yaml", dry,
		livemesh.Object("AuthorizationPolicy marker", fmt.Sprintf(rule, "DENY", "/denied"))),
		func(t *testing.T, m *livemesh.Mesh) {
			m.Await("the policy is in force", func() bool { return status("/denied") == 403 })
			require.Equal(t, 200, status("/dry"))
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
