package features

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/local/sample"
	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// autoTLS turns on mutual TLS among workloads that can.
const autoTLS = `
-- istio.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data: {mesh: "enableAutoMtls: true"}
`

// inTLS labels pods of a workload, whose sidecar takes mutual TLS of the mesh.
func inTLS(e livemesh.Echo) string {
	return strings.Replace(e.String(), "metadata: {labels: {", "metadata: {labels: {security.istio.io/tlsMode: istio, ",
		1)
}

// TestEndpointsWithSidecarAreCalledInMutualTLS: of the endpoints of a service those with a sidecar
// are called in mutual TLS, and the others in plaintext.
func TestEndpointsWithSidecarAreCalledInMutualTLS(t *testing.T) {
	options, _ := agentMesh(t)
	m := livemesh.StartWith(t, options, autoTLS+livemesh.File("base.yaml",
		inTLS(livemesh.NewEcho("web", "v1")), livemesh.NewEcho("web", "v2").Bare(),
		livemesh.Service("web", "http:80:8080"),
		inTLS(livemesh.NewEcho("lines", "v1").TCP(7000)), livemesh.Service("lines", "tcp:9000:7000"),
		livemesh.NewEcho("client", "v1"), livemesh.Service("client", "http:80:8080")))
	m.RequireNoProblems()
	caller := func(a livemesh.Answer) string {
		requireStatus(t, 200, a)
		_, uri, _ := strings.Cut(a.Echoed.Headers.Get("x-forwarded-client-cert"), ";URI=")
		return a.Echoed.Version + " " + uri
	}
	url := "http://web/"
	both := map[string]bool{"v1 " + spiffe("default", "default"): true, "v2 ": true}
	seen := func(m *livemesh.Mesh) map[string]bool {
		seen := map[string]bool{}
		for kind := range m.Client("client-v1").Tally(40, url, caller) {
			seen[kind] = true
		}
		return seen
	}
	direct := func(m *livemesh.Mesh) livemesh.Answer { // past the client's Envoy
		return m.Gateway("web-v1", 8080).Get("/", livemesh.Host("web"))
	}
	line := func(m *livemesh.Mesh) string {
		conn := m.Dial("client-v1", 9000)
		_, err := fmt.Fprintln(conn, "hello")
		require.NoError(t, err)
		answer, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		return answer
	}
	require.Equal(t, both, seen(m))
	require.Contains(t, line(m), "hello")
	requireStatus(t, 200, direct(m))
	load := m.Client("client-v1").Load(url)
	m.Run("nothing but TLS", livemesh.File("strict.yaml",
		livemesh.Object("PeerAuthentication strict", "mtls: {mode: STRICT}")), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		require.Equal(t, both, seen(m))
		require.Contains(t, line(m), "hello")
		requireStatus(t, 403, direct(m))
	})
	m.Settle()
	m.Run("a rule against it", livemesh.File("plain.yaml",
		rule("web", "host: web\ntrafficPolicy: {tls: {mode: DISABLE}}\n")), func(t *testing.T, m *livemesh.Mesh) {
		require.Equal(t, map[string]bool{"v1 ": true, "v2 ": true}, seen(m))
	})
	m.Await("TLS is back", func() bool { return len(seen(m)) == 2 && seen(m)["v1 "+spiffe("default", "default")] })
	load.Stop()
}

// TestEachEndpointIsCalledInItsOwnTLSMode: endpoints of one service that take TLS and others that
// do not become so many that Envoy gets them as collections, and fewer again, under traffic; some
// change. None is called otherwise than it says.
func TestEachEndpointIsCalledInItsOwnTLSMode(t *testing.T) {
	options, authority := agentMesh(t)
	c := newMixedCrowd(t, 420, authority)
	kind := func(odd string) func(i int) string {
		return func(i int) string {
			if (i%2 == 1) == (odd == "tls") {
				return ", labels: {security.istio.io/tlsMode: istio}"
			}
			return ""
		}
	}
	entry := func(from, to int, odd string) string {
		return strings.Replace(c.entry(from, to, kind(odd)), "resolution:", "location: MESH_INTERNAL\n  resolution:", 1)
	}
	m := livemesh.StartWith(t, options, autoTLS+livemesh.File("client.yaml", livemesh.NewEcho("client", "v1"),
		livemesh.Service("client", "http:80:8080"))+entry(0, 150, "tls"))
	load := m.Client("client-v1").Load("http://crowd.test/")
	check := func(from, to int, odd string) {
		t.Helper()
		m.Settle()
		require.Equal(t, c.addresses(from, to), hostsOf(m, "client-v1", "outbound|80||crowd.test"))
		want := map[string]string{}
		for i := from; i < to; i++ {
			want[c.address(i)+":"+c.ports[i]] = "plain"
			if kind(odd)(i) != "" {
				want[c.address(i)+":"+c.ports[i]] = spiffe("default", "default")
			}
		}
		kinds := m.Client("client-v1").Tally(60, "http://crowd.test/", func(a livemesh.Answer) string {
			requireStatus(t, 200, a)
			require.Equal(t, want[a.Echoed.Hostname], a.Echoed.Version, a.Echoed.Hostname)
			return a.Echoed.Version
		})
		require.Len(t, kinds, 2)
	}
	check(0, 150, "tls")
	for _, step := range []struct {
		from, to int
		odd      string
	}{
		{0, 420, "tls"}, {0, 420, "plain"}, {5, 400, "tls"}, // a collection
		{30, 120, "tls"}, {30, 120, "plain"}, // a list
		{0, 420, "plain"}, {0, 420, "tls"},
	} {
		m.Apply(entry(step.from, step.to, step.odd))
		check(step.from, step.to, step.odd)
	}
	m.Cut()
	m.Apply(entry(0, 420, "plain"))
	check(0, 420, "plain")
	load.Stop()
	requireUndisturbed(t, m, "client-v1", "leds")
}

// newMixedCrowd answers in plaintext and in mutual TLS of the mesh, and tells which: the caller's
// identity, or "plain". Each request has a connection of its own.
func newMixedCrowd(t *testing.T, n int, authority *certs.Authority) *crowd {
	t.Helper()
	return newMixedCrowdOf(t, "crowd", n, authority)
}

// newMixedCrowdOf is newMixedCrowd with the certificate of an account.
func newMixedCrowdOf(t *testing.T, account string, n int, authority *certs.Authority) *crowd {
	t.Helper()
	own := authority.Issue(t, account, certs.Identity(spiffe("default", account)))
	config := &tls.Config{
		Certificates: []tls.Certificate{own.TLS(t)},
		ClientCAs:    authority.Pool(),
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}
	type connKey struct{}
	server := &http.Server{
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close")
			_ = json.NewEncoder(w).Encode(sample.Echoed{
				Hostname: fmt.Sprint(r.Context().Value(http.LocalAddrContextKey)),
				Version:  r.Context().Value(connKey{}).(*eitherConn).caller(),
			})
		}),
	}
	return serveCrowd(t, n, server, func(l net.Listener) net.Listener { return either{l, config} })
}

// either takes connections in plaintext and in TLS, and tells them apart by their first byte.
type either struct {
	net.Listener
	config *tls.Config
}

func (l either) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &eitherConn{Conn: conn, first: bufio.NewReader(conn), config: l.config}, nil
}

// eitherConn is in TLS or not; its first Read finds out.
type eitherConn struct {
	net.Conn
	first  *bufio.Reader
	config *tls.Config
	found  sync.Once
	secure *tls.Conn // nil in plaintext
}

// buffered is a connection of which some bytes were read.
type buffered struct {
	net.Conn
	from *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.from.Read(p) }

func (c *eitherConn) Read(p []byte) (int, error) {
	c.found.Do(func() {
		const handshake = 22 // a record's type
		if b, err := c.first.Peek(1); err == nil && b[0] == handshake {
			c.secure = tls.Server(buffered{c.Conn, c.first}, c.config)
		}
	})
	if c.secure != nil {
		return c.secure.Read(p)
	}
	return c.first.Read(p)
}

func (c *eitherConn) Write(p []byte) (int, error) {
	if c.secure != nil {
		return c.secure.Write(p)
	}
	return c.Conn.Write(p)
}

// caller is who calls, in TLS.
func (c *eitherConn) caller() string {
	if c.secure == nil {
		return "plain"
	}
	return c.secure.ConnectionState().PeerCertificates[0].URIs[0].String()
}
