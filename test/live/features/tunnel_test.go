package features

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// forwardProxy is a proxy of HTTP, which connects to one server whatever it is asked for.
type forwardProxy struct {
	behind netip.AddrPort

	mu    sync.Mutex
	asked []string // "METHOD host:port"
}

// newForwardProxy returns a proxy and where it listens. The server behind it answers lines.
func newForwardProxy(t *testing.T) (*forwardProxy, netip.AddrPort) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				if line, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
					_, _ = io.WriteString(conn, "behind "+line)
				}
			}()
		}
	}()
	p := &forwardProxy{behind: netip.MustParseAddrPort(l.Addr().String())}
	server := httptest.NewServer(p)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return p, netip.MustParseAddrPort(strings.TrimPrefix(server.URL, "http://"))
}

// ServeHTTP implements http.Handler.
func (p *forwardProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.Host)
	p.mu.Unlock()
	behind, err := net.Dial("tcp", p.behind.String())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = behind.Close() }()
	_ = behind.SetDeadline(time.Now().Add(30 * time.Second))
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex()
	if r.Method == http.MethodConnect {
		conn, buffered, err := control.Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(behind, buffered)
			_ = behind.Close()
		}()
		_, _ = io.Copy(conn, behind)
		return
	}
	w.WriteHeader(http.StatusOK)
	_ = control.Flush()
	line, _ := bufio.NewReader(r.Body).ReadString('\n')
	_, _ = io.WriteString(behind, line)
	answer, _ := io.ReadAll(behind)
	_, _ = w.Write(answer)
	_ = control.Flush()
}

// last returns what the proxy was asked last since then, and forgets it.
func (p *forwardProxy) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) == 0 {
		return ""
	}
	last := p.asked[len(p.asked)-1]
	p.asked = nil
	return last
}

// TestConnectionsGoThroughATunnel is DestinationRule.trafficPolicy.tunnel: of sidecars and of
// gateways, to a proxy and to subsets of it.
func TestConnectionsGoThroughATunnel(t *testing.T) {
	proxy, at := newForwardProxy(t)
	m := livemesh.Start(t, livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"), livemesh.GatewayPod(8444),
		entryAt("proxy.test", "{number: 3128, name: p, protocol: TCP}", at),
		entryAt("far.test", "{number: 9000, name: p, protocol: TCP}", netip.MustParseAddrPort("127.0.0.1:1")),
		livemesh.Object("Gateway out", `
selector: {istio: ingress}
servers:
- port: {number: 8444, name: tcp, protocol: TCP}
  hosts: ["*"]
`)))
	through := func(route, policy string) string {
		return livemesh.File("tunnel.yaml", livemesh.Object("VirtualService far", `
hosts: [far.test]
gateways: [mesh, out]
tcp:
- route: `+route+`
`), livemesh.Object("DestinationRule proxy", "host: proxy.test\n"+policy+"\n"))
	}
	ask := func(to netip.AddrPort) string {
		conn, err := net.DialTimeout("tcp", to.String(), time.Second)
		if err != nil {
			return err.Error()
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = fmt.Fprintln(conn, "hello")
		answer, _ := bufio.NewReader(conn).ReadString('\n')
		return answer
	}
	sidecar := netip.AddrPortFrom(m.Pod("client-v1").Outbound, 9000)
	froms := []netip.AddrPort{sidecar, netip.AddrPortFrom(m.Pod("istio-ingress").Pod, 8444)}
	answered := func(t *testing.T, m *livemesh.Mesh, from netip.AddrPort, want string) {
		m.Await("an answer of what is behind the proxy", func() bool { return ask(from) == "behind hello\n" })
		require.Equal(t, want, proxy.last())
	}
	const whole, sub = "[{destination: {host: proxy.test}}]", "[{destination: {host: proxy.test, subset: post}}]"
	const both = "[{destination: {host: proxy.test, subset: post}, weight: 50}, " +
		"{destination: {host: proxy.test}, weight: 50}]"
	tunnel := "trafficPolicy: {tunnel: {targetHost: www.example.com, targetPort: 443}}\n"
	post := "subsets: [{name: post, trafficPolicy: {tunnel: " +
		"{protocol: POST, targetHost: '2001:db8::1', targetPort: 8443}}}]\n"
	for name, c := range map[string]struct{ route, policy, want string }{
		"by CONNECT":                   {whole, tunnel, "CONNECT www.example.com:443"},
		"of a subset, by POST":         {sub, post, "POST [2001:db8::1]:8443"},
		"of several, that of the host": {both, tunnel + post, "CONNECT www.example.com:443"},
	} {
		m.Run(name, through(c.route, c.policy), func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			for _, from := range froms {
				answered(t, m, from, c.want)
			}
		})
	}
	m.Run("without a route", through(whole, tunnel), func(t *testing.T, m *livemesh.Mesh) {
		answered(t, m, netip.AddrPortFrom(m.Pod("client-v1").Outbound, 3128), "CONNECT www.example.com:443")
	})
	m.Run("that cannot be read", through(whole, "trafficPolicy: {tunnel: {targetPort: 443}}"),
		func(t *testing.T, m *livemesh.Mesh) {
			m.AwaitProblem("DestinationRule default/proxy", "tunnel.targetHost", "connections are closed")
			proxy.last()
			for _, from := range froms {
				require.NotContains(t, ask(from), "behind")
			}
			require.Empty(t, proxy.last())
		})
	m.Run("that a subset lacks", through("[{destination: {host: proxy.test, subset: plain}}]",
		tunnel+"subsets: [{name: plain, trafficPolicy: {connectionPool: {}}}]"), func(t *testing.T, m *livemesh.Mesh) {
		m.AwaitProblem("DestinationRule default/proxy", "does not hold for the subset plain")
		proxy.last()
		require.NotContains(t, ask(sidecar), "behind")
		require.Empty(t, proxy.last())
	})
}
