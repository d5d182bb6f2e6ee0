package features

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/local/sample"
	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestRoutesForOthersTakeNoHost is about VirtualServices without a route for the caller: to it they
// are as if they were not there.
func TestRoutesForOthersTakeNoHost(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080),
		livemesh.NewEcho("client", "v1"),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.NewEcho("lines", "v1").HTTP().TCP(7000), livemesh.Service("lines", "tcp:9000:7000"),
		livemesh.NewEcho("far", "v2").In("other"), livemesh.Service("other/far", "http:80:8080"),
		livemesh.Object("Gateway g", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: ["*"]
`),
	)+registryOnly)
	client := m.Client("client-v1")
	gateway := m.Gateway("istio-ingress", 8080)
	for name, match := range map[string]string{
		"of gateways":   "{gateways: [g]}",
		"of labels":     "{sourceLabels: {app: nobody}}",
		"of namespaces": "{sourceNamespace: nowhere}",
		"of ports":      "{port: 4711}",
	} {
		m.Run(name, virtual("a-others", fmt.Sprintf(`
hosts: [web.default, shop.example.test]
gateways: [g, mesh]
http:
- match: [%s]
  directResponse: {status: 418}
`, match)), func(t *testing.T, m *livemesh.Mesh) {
			requireVersion(t, "v1", client.Get("http://web/"))
			requireStatus(t, 502, client.Get("http://shop.example.test/"))
			requireStatus(t, 502, client.Get("http://nobody.example.test/"))
			m.Apply(virtual("b-mine", "hosts: [web.default, shop.example.test]\nhttp:\n"+
				"- route: [{destination: {host: far.other.svc.cluster.local}}]\n"))
			requireVersion(t, "v2", client.Get("http://shop.example.test/"))
			m.Delete("virtual-b-mine.yaml")
		})
	}
	m.Run("at a gateway", virtual("a-mesh", `
hosts: [shop.example.test]
gateways: [g, mesh]
http:
- match: [{gateways: [mesh]}]
  directResponse: {status: 418}
`)+virtual("b-wide", `
hosts: ["*.example.test"]
gateways: [g]
http:
- route: [{destination: {host: web}}]
`), func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "v1", gateway.Get("/", livemesh.Host("shop.example.test")))
		requireStatus(t, 418, client.Get("http://shop.example.test/"))
	})
	m.Run("of connections", virtual("a-others", `
hosts: [lines]
tcp:
- match: [{sourceNamespace: nowhere}]
  route: [{destination: {host: nowhere}}]
`)+virtual("b-http", `
hosts: [lines]
http:
- directResponse: {status: 418}
`), func(t *testing.T, m *livemesh.Mesh) {
		answer, err := line(m, "client-v1", 9000, "hello")
		require.NoError(t, err)
		require.Equal(t, "v1 hello", answer)
	})
}

// TestWildcardsAreDestinations is about destinations that are the wildcard host of a ServiceEntry.
func TestWildcardsAreDestinations(t *testing.T) {
	outside := newRecorder(t)
	authority := certs.NewAuthority(t, "the partners'")
	secure := netip.MustParseAddrPort(
		secureBackend(t, authority.Issue(t, "partner", certs.Names("a.localhost"))).String(),
	)
	m := livemesh.Start(t, livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"))+registryOnly)
	client := m.Client("client-v1")
	m.Run("static", livemesh.File("entry.yaml", livemesh.Object("ServiceEntry partners", fmt.Sprintf(`
hosts: ["*.partner.test"]
ports: [{number: 80, name: http, protocol: HTTP}]
resolution: STATIC
endpoints: [{address: %s, ports: {http: %d}}]
`, outside.address().Addr(), outside.address().Port())))+virtual("partners", `
hosts: ["*.partner.test"]
http:
- timeout: 30s
  route: [{destination: {host: "*.partner.test", port: {number: 80}}}]
`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		requireVersion(t, "recorder", client.Get("http://a.partner.test/"))
		requireVersion(t, "recorder", client.Get("http://b.partner.test/"))
	})
	m.Run("looked up", livemesh.File("entry.yaml", livemesh.Object("ServiceEntry partners", fmt.Sprintf(`
hosts: ["*.localhost"]
ports: [{number: %d, name: tls, protocol: TLS}]
resolution: NONE
`, secure.Port())))+virtual("partners", fmt.Sprintf(`
hosts: ["*.localhost"]
tls:
- match: [{port: %d, sniHosts: ["*.localhost"]}]
  route: [{destination: {host: "*.localhost", port: {number: %d}}}]
`, secure.Port(), secure.Port())), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		conn := tls.Client(m.Dial("client-v1", secure.Port()), &tls.Config{
			ServerName: "a.localhost", InsecureSkipVerify: true, //nolint:gosec // it is about where the connection goes
		})
		require.NoError(t, conn.Handshake())
		require.NoError(t, conn.Close())
	})
}

// TestOtherNamesAtGateways is about routes of gateways to Services of type ExternalName.
func TestOtherNamesAtGateways(t *testing.T) {
	outside := newRecorder(t)
	alias := func(name, of, ports string) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: default}\n"+
			"spec: {type: ExternalName, externalName: %s, ports: [%s]}\n", name, of, ports)
	}
	const port = "{name: http, port: 80}"
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080", "http-b:8081:8080"),
		alias("alias", "web.default.svc.cluster.local", port), alias("bare", "web.default.svc.cluster.local", ""),
		alias("again", "bare.default.svc.cluster.local", ""), alias("outside", "outside.test", port),
		outside.entry("outside.test"),
		livemesh.Object("Gateway g", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: ["*"]
`)))
	gateway := m.Gateway("istio-ingress", 8080)
	for name, c := range map[string]struct{ destination, version string }{
		"with one port":     {"{host: alias}", "v1"},
		"without ports":     {"{host: bare, port: {number: 80}}", "v1"},
		"of another name":   {"{host: again, port: {number: 80}}", "v1"},
		"of a ServiceEntry": {"{host: outside, port: {number: 80}}", "recorder"},
	} {
		m.Run(name, virtual("al", fmt.Sprintf(`
hosts: [al.test]
gateways: [g]
http:
- route: [{destination: %s}]
`, c.destination)), func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			requireVersion(t, c.version, gateway.Get("/", livemesh.Host("al.test")))
		})
	}
}

// TestBrowsersCallGRPC is gRPC-Web, translated at a gateway and at a Service's own port.
func TestBrowsersCallGRPC(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080, 8081),
		livemesh.NewEcho("client", "v1"),
		livemesh.NewEcho("web", "v1").HTTP(8080, 8081),
		livemesh.Service("web", "grpc:80:8080", "grpc-web:81:8081"),
		livemesh.Object("Gateway g", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: grpc-web, protocol: GRPC-WEB}
  hosts: ["*"]
- port: {number: 8081, name: http, protocol: HTTP}
  hosts: ["*"]
`)+livemesh.Object("VirtualService web", `
hosts: ["*"]
gateways: [g]
http:
- match: [{port: 8080}]
  route: [{destination: {host: web, port: {number: 80}}}]
- route: [{destination: {host: web, port: {number: 81}}}]
`)))
	m.RequireNoProblems()
	for name, call := range map[string]func(...livemesh.Option) livemesh.Answer{
		"at a gateway": func(o ...livemesh.Option) livemesh.Answer {
			return m.Gateway("istio-ingress", 8080).Get("/shop.Cart/Add", o...)
		},
		"at a port behind a gateway": func(o ...livemesh.Option) livemesh.Answer {
			return m.Gateway("istio-ingress", 8081).Get("/shop.Cart/Add", o...)
		},
		"at a port": func(o ...livemesh.Option) livemesh.Answer {
			return m.Client("client-v1").Get("http://web:81/shop.Cart/Add", o...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := call(livemesh.Method(http.MethodPost), livemesh.Header("content-type", "application/grpc-web+proto"))
			requireStatus(t, http.StatusOK, a)
			require.Equal(t, "application/grpc-web+proto", a.Header.Get("content-type"))
			require.Greater(t, len(a.Body), 5)
			size := binary.BigEndian.Uint32([]byte(a.Body)[1:])
			var echoed sample.Echoed
			require.NoError(t, json.Unmarshal([]byte(a.Body)[5:5+size], &echoed), "%s", a)
			require.Equal(t, []string{"application/grpc"}, echoed.Headers["Content-Type"])
			require.Equal(t, "HTTP/2.0", echoed.Protocol)
			require.Contains(t, strings.ToLower(a.Body[5+size:]), "grpc-status:0", "trailers stand in the body")
		})
	}
}

// TestConnectionPoolsHoldAtTheServer is about what is said of connections to a service: it holds
// from the server's own proxy to its process too, above all in which protocol they are.
func TestConnectionPoolsHoldAtTheServer(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080),
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
	))
	client := m.Client("client-v1")
	const upgraded = "host: web\ntrafficPolicy: {connectionPool: {http: {h2UpgradePolicy: UPGRADE}}}\n"
	spoken := func(t *testing.T, want string) {
		t.Helper()
		a := client.Get("http://web/")
		requireVersion(t, "v1", a)
		require.Equal(t, want, a.Echoed.Protocol)
	}
	m.Run("an upgrade is for the way to the server", rule("web", upgraded), func(t *testing.T, _ *livemesh.Mesh) {
		spoken(t, "HTTP/1.1")
	})
	m.Run("as the client", rule("web", upgraded)+livemesh.File("sidecar.yaml", livemesh.Object("Sidecar web", `
workloadSelector: {labels: {app: web}}
inboundConnectionPool: {http: {useClientProtocol: true}}
`)), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		spoken(t, "HTTP/2.0")
		m.Apply(livemesh.File("sidecar.yaml", livemesh.Object(
			"Sidecar web", "workloadSelector: {labels: {app: web}}\n",
		)))
		spoken(t, "HTTP/1.1")
	})
	m.Run("by a rule", livemesh.File("entry.yaml", livemesh.Object("Gateway g", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http2, protocol: HTTP2}
  hosts: ["*"]
`))+virtual("web", "hosts: ['*']\ngateways: [g]\nhttp:\n- route: [{destination: {host: web}}]\n")+rule("web", `
host: web
trafficPolicy: {portLevelSettings: [{port: {number: 80}, connectionPool: {http: {useClientProtocol: true}}}]}
`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		spoken(t, "HTTP/1.1")
		require.Equal(t, "HTTP/2.0", overHTTP2(t, m, "istio-ingress", 8080).Protocol)
		m.Apply(rule("web", "host: web\n"))
		require.Equal(t, "HTTP/1.1", overHTTP2(t, m, "istio-ingress", 8080).Protocol)
	})
}

// overHTTP2 asks a proxy for its root over HTTP/2 in plaintext.
func overHTTP2(t *testing.T, m *livemesh.Mesh, workload string, port uint16) sample.Echoed {
	t.Helper()
	transport := &http.Transport{Protocols: &http.Protocols{}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	url := "http://" + netip.AddrPortFrom(m.Pod(workload).Pod, port).String()
	resp, err := (&http.Client{Transport: transport}).Get(url)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	var echoed sample.Echoed
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&echoed))
	return echoed
}

// TestWebSocketsPassAnUpgradeToHTTP2 is about WebSockets where calls are upgraded to HTTP/2, and
// about what else could come that way.
func TestWebSocketsPassAnUpgradeToHTTP2(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080), baseRoute(),
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
	)+rule("web", "host: web\ntrafficPolicy: {connectionPool: {http: {h2UpgradePolicy: UPGRADE}}}\n"))
	m.RequireNoProblems()
	server := netip.AddrPortFrom(m.Pod("web-v1").Pod, 8080).String()
	m.Run("at a gateway", "", func(t *testing.T, m *livemesh.Mesh) {
		requireUpgrades(t, netip.AddrPortFrom(m.Pod("istio-ingress").Pod, 8080).String(), "base.test")
	})
	m.Run("of the mesh", "", func(t *testing.T, m *livemesh.Mesh) {
		requireUpgrades(t, netip.AddrPortFrom(m.Pod("client-v1").Outbound, local.HTTPProxyPort).String(), "web")
	})
	m.Run("policies decide on the path", livemesh.File("policy.yaml", livemesh.Object("AuthorizationPolicy deny", `
selector: {matchLabels: {app: web}}
action: DENY
rules: [{to: [{operation: {paths: [/secret], methods: [GET]}}]}]
`)), func(t *testing.T, _ *livemesh.Mesh) {
		websocket := [][2]string{{":protocol", "websocket"}, {":scheme", "http"}}
		require.Equal(t, "200", connectStatus(t, server, append(websocket, [2]string{":path", "/upgrade"})...))
		require.Equal(t, "403", connectStatus(t, server, append(websocket, [2]string{":path", "/secret"})...))
	})
	m.Run("no other tunnel opens", "", func(t *testing.T, _ *livemesh.Mesh) {
		other := [][2]string{{":protocol", "connect-udp"}, {":scheme", "http"}, {":path", "/"}}
		for _, headers := range [][][2]string{nil, other} {
			status := connectStatus(t, server, headers...)
			require.True(t, strings.HasPrefix(status, "4") || status == "reset", status)
		}
	})
}

// requireUpgrades has the connection taken over through a proxy, and what is sent come back.
func requireUpgrades(t *testing.T, proxy, host string) {
	t.Helper()
	conn, err := net.Dial("tcp", proxy)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "GET /upgrade HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", host)
	require.NoError(t, err)
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	back, err := reader.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "hello\n", back)
}

// connectStatus sends CONNECT over HTTP/2 with some headers, and returns the status of the answer,
// or "reset".
func connectStatus(t *testing.T, address string, headers ...[2]string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	require.NoError(t, framer.WriteSettings())
	var block strings.Builder
	encoder := hpack.NewEncoder(&block)
	for _, h := range append([][2]string{{":method", "CONNECT"}, {":authority", "web"}}, headers...) {
		require.NoError(t, encoder.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}))
	}
	require.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: 1, BlockFragment: []byte(block.String()), EndHeaders: true,
	}))
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return "reset"
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			return frame.PseudoValue("status")
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return "reset"
		}
	}
}
