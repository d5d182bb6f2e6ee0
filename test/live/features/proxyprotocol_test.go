package features

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// announcedConn is a connection that may begin with the PROXY protocol.
type announcedConn struct {
	net.Conn

	once  sync.Once
	bytes *bufio.Reader
	// header is "v1 ADDRESS:PORT", "v2 ADDRESS:PORT", or "none".
	header string
}

func (c *announcedConn) Read(p []byte) (int, error) {
	var err error
	c.once.Do(func() { err = c.readHeader() })
	if err != nil {
		return 0, err
	}
	return c.bytes.Read(p)
}

const signatureV2 = "\r\n\r\n\x00\r\nQUIT\n"

func (c *announcedConn) readHeader() error {
	c.bytes, c.header = bufio.NewReader(c.Conn), "none"
	first, err := c.bytes.Peek(5)
	switch {
	case err != nil:
		return err
	case string(first) == "PROXY":
		line, err := c.bytes.ReadString('\n') // PROXY TCP4 source destination port port
		if words := strings.Fields(line); len(words) == 6 {
			c.header = "v1 " + net.JoinHostPort(words[2], words[4])
		}
		return err
	case !strings.HasPrefix(signatureV2, string(first)):
		return nil
	}
	head := make([]byte, 16)
	if _, err := io.ReadFull(c.bytes, head); err != nil {
		return err
	}
	rest := make([]byte, binary.BigEndian.Uint16(head[14:]))
	if _, err := io.ReadFull(c.bytes, rest); err != nil {
		return err
	}
	if head[13] == 0x11 { // TCP over IPv4
		port := binary.BigEndian.Uint16(rest[8:])
		c.header = "v2 " + netip.AddrPortFrom(netip.AddrFrom4([4]byte(rest[:4])), port).String()
	}
	return nil
}

// announcedListener takes such connections.
type announcedListener struct{ net.Listener }

func (l announcedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &announcedConn{Conn: conn}, nil
}

type connKey struct{}

// announcedServer answers requests with the header that their connections began with; over TLS if
// it has a pair.
func announcedServer(t *testing.T, pair *certs.Pair) netip.AddrPort {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("x-header", r.Context().Value(connKey{}).(*announcedConn).header)
		}),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if secured, ok := c.(*tls.Conn); ok {
				c = secured.NetConn()
			}
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	var l net.Listener = announcedListener{inner}
	if pair != nil {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair.TLS(t)}})
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return netip.MustParseAddrPort(inner.Addr().String())
}

// entryAt is a ServiceEntry for an address, at a port of a host.
func entryAt(host, port string, address netip.AddrPort) string {
	return livemesh.Object("ServiceEntry "+strings.TrimSuffix(host, ".test"), fmt.Sprintf(`
hosts: [%s]
ports: [%s]
resolution: STATIC
endpoints: [{address: %s, ports: {p: %d}}]
`, host, port, address.Addr(), address.Port()))
}

// TestServersHearByTheProxyProtocolWhoCalls is DestinationRule.trafficPolicy.proxyProtocol: with
// requests, with bytes, before TLS, and for subsets.
func TestServersHearByTheProxyProtocolWhoCalls(t *testing.T) {
	authority := certs.NewAuthority(t, "the server's")
	pair := authority.Issue(t, "secure.test")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, []byte(authority.PEM), 0o600))
	plain := announcedServer(t, nil)
	m := livemesh.Start(t, livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"),
		entryAt("plain.test", "{number: 80, name: p, protocol: HTTP}", plain),
		entryAt("bytes.test", "{number: 9000, name: p, protocol: TCP}", plain),
		entryAt("secure.test", "{number: 80, name: p, protocol: HTTP}", announcedServer(t, &pair)),
	)+rule("secure",
		"host: secure.test\ntrafficPolicy: {tls: {mode: SIMPLE, sni: secure.test, caCertificates: "+ca+"}}\n"))
	m.RequireNoProblems()
	client := m.Client("client-v1")
	header := func(url string) string {
		a := client.Get(url)
		requireStatus(t, 200, a)
		kind, address, _ := strings.Cut(a.Header.Get("x-header"), " ")
		if kind != "none" {
			require.True(t, netip.MustParseAddrPort(address).Addr().IsLoopback(), address)
		}
		return kind
	}
	ofBytes := func() (kind, own string) {
		conn := m.Dial("client-v1", 9000)
		defer func() { _ = conn.Close() }()
		_, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: bytes.test\r\n\r\n")
		require.NoError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		return answer.Header.Get("x-header"), conn.LocalAddr().String()
	}
	require.Equal(t, "none", header("http://plain.test/"))
	for version, kind := range map[string]string{"{}": "v1", "{version: V2}": "v2"} {
		m.Run(kind, livemesh.File("announce.yaml",
			livemesh.Object("DestinationRule plain", "host: plain.test\ntrafficPolicy: {proxyProtocol: "+version+"}\n"),
			livemesh.Object("DestinationRule bytes", "host: bytes.test\ntrafficPolicy: {proxyProtocol: "+version+"}\n"),
		)+rule("secure", "host: secure.test\ntrafficPolicy:\n  proxyProtocol: "+version+
			"\n  tls: {mode: SIMPLE, sni: secure.test, caCertificates: "+ca+"}\n"),
			func(t *testing.T, m *livemesh.Mesh) {
				m.RequireNoProblems()
				require.Equal(t, kind, header("http://plain.test/"))
				require.Equal(t, kind, header("http://secure.test/"))
				got, own := ofBytes()
				require.Equal(t, kind+" "+own, got)
			})
	}
	m.Run("a subset", livemesh.File("announce.yaml", livemesh.Object("DestinationRule plain", `
host: plain.test
subsets: [{name: told, trafficPolicy: {proxyProtocol: {version: V2}}}]
`))+virtual("plain", `
hosts: [plain.test]
http:
- match: [{uri: {prefix: /told}}]
  route: [{destination: {host: plain.test, subset: told}}]
- route: [{destination: {host: plain.test}}]
`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		require.Equal(t, "none", header("http://plain.test/"))
		require.Equal(t, "v2", header("http://plain.test/told"))
	})
}
