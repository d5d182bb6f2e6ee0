package features

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestServicePortsLeadToWorkloadPorts is how the ports of services lead to the ports of workloads.
func TestServicePortsLeadToWorkloadPorts(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml", livemesh.NewEcho("client", "v1")))
	m.Run("headless", livemesh.File("web.yaml", livemesh.NewEcho("web", "v1").Replicas(2),
		livemesh.Headless("web", "http:8080")),
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			got := m.Client("client-v1").Tally(60, "http://web:8080/", livemesh.ByPod)
			require.Len(t, got, 2, "%v", got)
			for pod := range got {
				require.Contains(t, pod, "web-")
			}
		})
	m.Run("named target ports", livemesh.File("web.yaml",
		livemesh.NewEcho("web", "v1").HTTP(8080).PortName("door"),
		livemesh.NewEcho("web", "v2").HTTP(9090).PortName("door"),
		livemesh.Service("web", "http:80:door"),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		got := m.Client("client-v1").Tally(60, "http://web/", livemesh.ByVersion)
		require.Equal(t, 60, got["v1"]+got["v2"], "%v", got)
		require.Len(t, got, 2, "%v", got)
	})
	m.Run("protocol by appProtocol", livemesh.File("web.yaml", livemesh.NewEcho("web", "v1"),
		strings.Replace(livemesh.Service("web", "odd:80:8080"), "name: odd,", "name: odd, appProtocol: http,", 1),
	)+virtual("web", "hosts: [web]\nhttp:\n- directResponse: {status: 418}\n"), func(t *testing.T, m *livemesh.Mesh) {
		requireStatus(t, 418, m.Client("client-v1").Get("http://web/"))
	})
	m.Run("tcp", livemesh.File("lines.yaml",
		livemesh.NewEcho("lines", "v1").HTTP().TCP(7000), livemesh.NewEcho("lines", "v2").HTTP().TCP(7000),
		livemesh.Service("lines", "tcp:9000:7000"),
	)+rule("lines", `
host: lines
subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]
`), testTCP)
	m.Run("tcp port conflict", livemesh.File("lines.yaml",
		livemesh.NewEcho("ant", "v1").HTTP().TCP(7000), livemesh.Service("ant", "tcp:9000:7000"),
		livemesh.NewEcho("bee", "v2").HTTP().TCP(7000), livemesh.Service("bee", "tcp:9000:7000"),
	), testPortClash)
}

// line sends a line through a workload's sidecar to a TCP service, and gives what the line echo
// answered.
func line(m *livemesh.Mesh, workload string, port uint16, text string) (string, error) {
	conn := m.Dial(workload, port)
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintln(conn, text); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(answer), err
}

func testTCP(t *testing.T, m *livemesh.Mesh) {
	m.RequireNoProblems()
	seen := map[string]bool{}
	for range 60 {
		answer, err := line(m, "client-v1", 9000, "hello")
		require.NoError(t, err)
		seen[answer] = true
	}
	require.Equal(t, map[string]bool{"v1 hello": true, "v2 hello": true}, seen)
	m.Run("routed", virtual("lines", `
hosts: [lines]
tcp:
- match: [{port: 9000, sourceLabels: {app: client}}]
  route: [{destination: {host: lines, subset: v2}}]
`), func(t *testing.T, m *livemesh.Mesh) {
		for range 20 {
			answer, err := line(m, "client-v1", 9000, "hello")
			require.NoError(t, err)
			require.Equal(t, "v2 hello", answer)
		}
	})
}

func testPortClash(t *testing.T, m *livemesh.Mesh) {
	for range 5 {
		answer, err := line(m, "client-v1", 9000, "hello")
		require.NoError(t, err)
		require.Equal(t, "v1 hello", answer, "ant comes first")
	}
	p := m.AwaitProblem("Service default/bee", "9000", "ant.default.svc.cluster.local")
	require.NotEmpty(t, p.Want)
	m.Apply(livemesh.File("lines.yaml",
		livemesh.NewEcho("ant", "v1").HTTP().TCP(7000), livemesh.Service("ant", "tcp:9000:7000"),
		livemesh.NewEcho("bee", "v2").HTTP().TCP(7000), livemesh.Service("bee", "tcp:9001:7000"),
	))
	m.RequireNoProblems()
	for port, want := range map[uint16]string{9000: "v1 hello", 9001: "v2 hello"} {
		answer, err := line(m, "client-v1", port, "hello")
		require.NoError(t, err)
		require.Equal(t, want, answer)
	}
}

// TestServiceEntriesLeadOutOfTheMesh is ServiceEntries: what is outside of the mesh.
func TestServiceEntriesLeadOutOfTheMesh(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"),
		livemesh.NewEcho("stranger", "v1").In("other"))+registryOnly)
	outside := newRecorder(t)
	port := outside.address().Port()

	m.Run("unknown hosts are refused", "", func(t *testing.T, m *livemesh.Mesh) {
		requireStatus(t, 502, m.Client("client-v1").Get(fmt.Sprintf("http://localhost:%d/", port)))
	})
	m.Run("static", livemesh.File("entry.yaml", outside.entry("outside.test")), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireVersion(t, "recorder", m.Client("client-v1").Get("http://outside.test/"))
	})
	m.Run("dns", livemesh.File("entry.yaml", livemesh.Object("ServiceEntry outside", fmt.Sprintf(`
hosts: [outside.test]
ports: [{number: 80, name: http, protocol: HTTP}]
resolution: DNS
endpoints: [{address: localhost, ports: {http: %d}}]
`, port))), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireVersion(t, "recorder", m.Client("client-v1").Get("http://outside.test/"))
	})
	m.Run("none", livemesh.File("entry.yaml", livemesh.Object("ServiceEntry outside", fmt.Sprintf(`
hosts: [localhost]
ports: [{number: %d, name: http, protocol: HTTP}]
resolution: NONE
`, port))), func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "recorder", m.Client("client-v1").Get(fmt.Sprintf("http://localhost:%d/", port)))
	})
	m.Run("of one namespace", livemesh.File("entry.yaml", strings.Replace(
		strings.Replace(outside.entry("outside.test"), "namespace: default", "namespace: other", 1), "hosts:",
		"exportTo: [\".\"]\n  hosts:", 1),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireVersion(t, "recorder", m.Client("other/stranger-v1").Get("http://outside.test/"))
		requireStatus(t, 502, m.Client("client-v1").Get("http://outside.test/"))
	})
	m.Run("tls by server name", "", testServerNames)
}

const registryOnly = `
-- istio.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    outboundTrafficPolicy: {mode: REGISTRY_ONLY}
`

func testServerNames(t *testing.T, m *livemesh.Mesh) {
	var entries []any
	for _, name := range []string{"ant", "bee"} {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, name)
		}))
		t.Cleanup(server.Close)
		at := netip.MustParseAddrPort(strings.TrimPrefix(server.URL, "https://"))
		entries = append(entries, livemesh.Object("ServiceEntry "+name, fmt.Sprintf(`
hosts: [%s.tls.test]
ports: [{number: 9443, name: tls, protocol: TLS}]
resolution: STATIC
endpoints: [{address: %s, ports: {tls: %d}}]
`, name, at.Addr(), at.Port())))
	}
	m.Run("each its own", livemesh.File("tls.yaml", entries...), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		for _, name := range []string{"ant", "bee", "ant"} {
			got, err := overTLS(m.Dial("client-v1", 9443), name+".tls.test")
			require.NoError(t, err)
			require.Equal(t, name, got)
		}
		_, err := overTLS(m.Dial("client-v1", 9443), "cat.tls.test")
		require.Error(t, err, "nobody has that name")
		m.Run("routed", virtual("tls", `
hosts: [ant.tls.test]
tls:
- match: [{sniHosts: [ant.tls.test]}]
  route: [{destination: {host: bee.tls.test, port: {number: 9443}}}]
`), func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			got, err := overTLS(m.Dial("client-v1", 9443), "ant.tls.test")
			require.NoError(t, err)
			require.Equal(t, "bee", got)
		})
	})
}

// overTLS asks whoever answers at a connection for a server name; the certificates are the test
// servers' own.
func overTLS(conn net.Conn, name string) (string, error) {
	secured := tls.Client(conn, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	defer func() { _ = secured.Close() }()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := fmt.Fprintf(secured, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(secured), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}
