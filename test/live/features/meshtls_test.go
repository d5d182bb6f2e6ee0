package features

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/local/sample"
	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestGatewayAndCallersUseCertificatesOfTheirAgents: a gateway's server and the callers of a host
// have the certificates that their agents give them.
func TestGatewayAndCallersUseCertificatesOfTheirAgents(t *testing.T) {
	options, authority := agentMesh(t)
	m := livemesh.StartWith(t, options, livemesh.File("base.yaml",
		livemesh.GatewayPod(8443), livemesh.NewEcho("web", "v1").Bare(), livemesh.Service("web", "http:80:8080"),
		livemesh.NewEcho("client", "v1"),
		livemesh.NewEcho("lines", "v1").TCP(7000), livemesh.Service("lines", "tcp:9000:7000"),
		secure("members", "mesh.test, calling.test", "{mode: ISTIO_MUTUAL}", "web"),
		secure("picky", "picky.test", "{mode: ISTIO_MUTUAL, subjectAltNames: ["+spiffe("default", "picked")+"]}",
			"web"),
		livemesh.Object("Gateway lines", `
selector: {istio: ingress}
servers:
- port: {number: 8443, name: lines, protocol: TLS}
  hosts: [lines.test]
  tls: {mode: ISTIO_MUTUAL}
`), livemesh.Object("VirtualService lines", `
hosts: [lines.test]
gateways: [lines]
tcp:
- route: [{destination: {host: lines, port: {number: 9000}}}]
`)))
	m.RequireNoProblems()
	with := func(pairs ...certs.Pair) *tls.Config {
		config := &tls.Config{InsecureSkipVerify: true} // it has no name of a host
		if len(pairs) > 0 {
			own := pairs[0].TLS(t)
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &own, nil
			}
		}
		return config
	}
	get := func(host string, config *tls.Config) livemesh.Answer {
		return m.SecureGateway("istio-ingress", 8443, config).Get("https://" + host + "/")
	}
	member := authority.Issue(t, "member", certs.Identity(spiffe("default", "member")))
	picked := authority.Issue(t, "picked", certs.Identity(spiffe("default", "picked")))
	stranger := certs.NewAuthority(t, "another").Issue(t, "stranger", certs.Identity(spiffe("default", "picked")))

	m.Run("who has a certificate of the mesh is let in", "", func(t *testing.T, m *livemesh.Mesh) {
		a := get("mesh.test", with(member))
		requireVersion(t, "v1", a)
		require.Contains(t, a.Echoed.Headers.Get("x-forwarded-client-cert"), "URI="+spiffe("default", "member"))
		require.Equal(t, spiffe("default", "default"), a.TLS.PeerCertificates[0].URIs[0].String(), "the gateway's own")
		require.Error(t, get("mesh.test", with()).Err)
		require.Error(t, get("mesh.test", with(stranger)).Err)
		require.Error(t, m.Gateway("istio-ingress", 8443).Get("/", livemesh.Host("mesh.test")).Err, "in plaintext")
		requireVersion(t, "v1", get("picky.test", with(picked)))
		require.Error(t, get("picky.test", with(member)).Err)
	})
	m.Run("connections that are not HTTP", "", func(t *testing.T, m *livemesh.Mesh) {
		address := netip.AddrPortFrom(m.Pod("istio-ingress").Pod, 8443).String()
		say := func(config *tls.Config) (string, error) {
			config.ServerName = "lines.test"
			conn, err := tls.Dial("tcp", address, config)
			if err != nil {
				return "", err
			}
			defer func() { _ = conn.Close() }()
			if _, err := fmt.Fprintln(conn, "hello"); err != nil {
				return "", err
			}
			return bufio.NewReader(conn).ReadString('\n')
		}
		answer, err := say(with(member))
		require.NoError(t, err)
		require.Contains(t, answer, "hello")
		_, err = say(with(stranger))
		require.Error(t, err)
	})
	calling := func(demands string) string {
		return livemesh.File("calling.yaml", livemesh.Object("ServiceEntry calling", fmt.Sprintf(`
hosts: [calling.test]
ports: [{number: 80, name: http, protocol: HTTP}]
resolution: STATIC
endpoints: [{address: %s, ports: {http: 8443}}]
`, m.Pod("istio-ingress").Pod)), livemesh.Object("DestinationRule calling", `
host: calling.test
trafficPolicy: {tls: {mode: ISTIO_MUTUAL, sni: mesh.test`+demands+`}}
`))
	}
	call := func(m *livemesh.Mesh) livemesh.Answer {
		return m.Client("client-v1").Get("http://calling.test/", livemesh.Host("calling.test"))
	}
	m.Run("a sidecar calls with its own", calling(""), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		a := call(m)
		requireVersion(t, "v1", a)
		require.Contains(t, a.Echoed.Headers.Get("x-forwarded-client-cert"), "URI="+spiffe("default", "default"))
	})
	m.Run("and of the one that it expects", calling(", subjectAltNames: ["+spiffe("default", "default")+"]"),
		func(t *testing.T, m *livemesh.Mesh) {
			requireVersion(t, "v1", call(m))
		})
	m.Run("and not of another", calling(", subjectAltNames: ["+spiffe("default", "picked")+"]"),
		func(t *testing.T, m *livemesh.Mesh) {
			requireStatus(t, 503, call(m))
		})
}

// TestMeshLimitsVersionsOfTLS: meshMTLS limits what sidecars and gateways take of the mesh, and
// tlsDefaults what gateways take of others.
func TestMeshLimitsVersionsOfTLS(t *testing.T) {
	options, authority := agentMesh(t)
	m := livemesh.StartWith(t, options, livemesh.File("base.yaml",
		livemesh.GatewayPod(8443), inTLS(livemesh.NewEcho("web", "v1")), livemesh.Service("web", "http:80:8080"),
		livemesh.Object("PeerAuthentication strict", "mtls: {mode: STRICT}"),
		livemesh.Object("DestinationRule web", "host: web\ntrafficPolicy: {tls: {mode: ISTIO_MUTUAL}}\n"),
		authority.Issue(t, "open.test").Secret("default", "open", ""),
		secure("members", "members.test", "{mode: ISTIO_MUTUAL}", "web"),
		secure("open", "open.test", "{mode: SIMPLE, credentialName: open}", "web"),
	))
	member := authority.Issue(t, "member", certs.Identity(spiffe("default", "member"))).TLS(t)
	get := func(m *livemesh.Mesh, workload string, version uint16) livemesh.Answer {
		port, host := uint16(8443), workload
		if workload == "web-v1" {
			port = 8080
		} else {
			workload = "istio-ingress"
		}
		return m.SecureGateway(workload, port, &tls.Config{
			InsecureSkipVerify: true, Certificates: []tls.Certificate{member}, MaxVersion: version,
		}).Get("https://" + host + "/")
	}
	const sidecar, members, open = "web-v1", "members.test", "open.test"
	for _, c := range []struct {
		name, mesh      string
		refused, served []string
	}{
		{"no limits", "{}", nil, []string{sidecar, members, open}},
		{"meshMTLS", "meshMTLS: {minProtocolVersion: TLSV1_3}", []string{sidecar, members}, []string{open}},
		{"tlsDefaults", "tlsDefaults: {minProtocolVersion: TLSV1_3}", []string{open}, []string{sidecar, members}},
	} {
		m.Run(c.name, livemesh.File("istio.yaml", fmt.Sprintf(`
---
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data: {mesh: %q}
`, c.mesh)), func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			for _, server := range c.refused {
				require.ErrorContains(t, get(m, server, tls.VersionTLS12).Err, "protocol version not supported", server)
			}
			for _, server := range c.served {
				a := get(m, server, tls.VersionTLS12)
				requireVersion(t, "v1", a)
				require.Equal(t, uint16(tls.VersionTLS12), a.TLS.Version, server)
			}
			for _, server := range []string{sidecar, members, open} {
				requireVersion(t, "v1", get(m, server, tls.VersionTLS13))
			}
		})
	}
}

// TestMissingCertificateFileClosesItsServerAlone: an agent serves them, so that one that is missing
// closes its own server alone, until it is there.
func TestMissingCertificateFileClosesItsServerAlone(t *testing.T) {
	options, _ := agentMesh(t)
	authority, dir := certs.NewAuthority(t, "test authority"), t.TempDir()
	server := func(name string) string {
		return secure(name, name+".test", fmt.Sprintf(
			"{mode: SIMPLE, serverCertificate: %[1]s.pem, privateKey: %[1]s.key}", filepath.Join(dir, name),
		), "web")
	}
	write := func(name string) {
		pair := authority.Issue(t, name+".test")
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".key"), []byte(pair.Key), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".pem"), []byte(pair.Certificate), 0o600))
	}
	write("there")
	m := livemesh.StartWith(t, options, livemesh.File("base.yaml",
		livemesh.GatewayPod(8443), livemesh.NewEcho("web", "v1").Bare(), livemesh.Service("web", "http:80:8080"),
		server("there"), server("missing"),
	))
	m.RequireNoProblems()
	client := m.SecureGateway("istio-ingress", 8443, trusting(authority))
	requireVersion(t, "v1", client.Get("https://there.test/"))
	require.Error(t, client.Get("https://missing.test/").Err)
	write("missing")
	m.Await("the file is taken", func() bool { return client.Get("https://missing.test/").OK() })
	requireVersion(t, "v1", client.Get("https://there.test/"))
}

// unwrapping hides that connections are in TLS: an http.Server serves none that negotiated "istio".
type unwrapping struct{ net.Listener }

func (l unwrapping) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return struct{ net.Conn }{conn}, err
}

// TestAutoPassthroughReachesOnlyTheNamedDestination: a gateway with AUTO_PASSTHROUGH hands
// connections of the mesh on to the destination that they ask for, and to no other.
func TestAutoPassthroughReachesOnlyTheNamedDestination(t *testing.T) {
	options, authority := agentMesh(t)
	server := func(version string) string { // a workload that takes mutual TLS, as sidecars of Istio do
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(w).Encode(sample.Echoed{Version: version, Host: r.Host})
		}))
		own := authority.Issue(t, version, certs.Identity(spiffe("default", version)))
		s.Listener = unwrapping{tls.NewListener(s.Listener, &tls.Config{
			Certificates: []tls.Certificate{own.TLS(t)},
			ClientCAs:    authority.Pool(),
			ClientAuth:   tls.RequireAndVerifyClientCert,
			NextProtos:   []string{"istio", "istio-http/1.1", "istio-h2"},
		})}
		s.Start()
		t.Cleanup(s.Close)
		_, port, err := net.SplitHostPort(s.Listener.Addr().String())
		require.NoError(t, err)
		return port
	}
	entry := func(name, location, version, labels string) string {
		return livemesh.Object("ServiceEntry "+name, fmt.Sprintf(`
hosts: [%s.test]
location: %s
ports: [{number: 80, name: http, protocol: HTTP}]
resolution: STATIC
endpoints: [{address: 127.0.0.1, ports: {http: %s}, labels: {%s}}]
`, name, location, server(version), labels))
	}
	const takesTLS = "security.istio.io/tlsMode: istio"
	m := livemesh.StartWith(t, options, livemesh.File("base.yaml",
		livemesh.GatewayPod(15443), livemesh.NewEcho("client", "v1"),
		entry("near", "MESH_INTERNAL", "v1", takesTLS+", version: v1"),
		entry("plain", "MESH_INTERNAL", "v2", "version: v2"),
		entry("outside", "MESH_EXTERNAL", "v3", takesTLS),
		livemesh.Object("DestinationRule near",
			"host: near.test\nsubsets: [{name: one, labels: {version: v1}}, {name: two, labels: {version: v2}}]"),
		livemesh.Object("Gateway cross", `
selector: {istio: ingress}
servers:
- port: {number: 15443, name: tls, protocol: TLS}
  hosts: ["*.test"]
  tls: {mode: AUTO_PASSTHROUGH}
`)))
	m.RequireNoProblems()
	member := authority.Issue(t, "member", certs.Identity(spiffe("default", "member"))).TLS(t)
	dial := func(name string, protocols ...string) error {
		conn, err := tls.Dial("tcp", netip.AddrPortFrom(m.Pod("istio-ingress").Pod, 15443).String(), &tls.Config{
			InsecureSkipVerify: true, ServerName: name, NextProtos: protocols, Certificates: []tls.Certificate{member},
		})
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	require.NoError(t, dial("outbound_.80_._.near.test", "istio"))
	require.NoError(t, dial("outbound_.80_.one_.near.test", "istio"))
	require.Error(t, dial("outbound_.80_.two_.near.test", "istio"), "nobody is of that subset")
	require.Error(t, dial("outbound_.80_._.near.test", "http/1.1"), "not in TLS of the mesh")
	require.Error(t, dial("outbound_.80_._.near.test"))
	require.Error(t, dial("outbound_.81_._.near.test", "istio"))
	require.Error(t, dial("outbound_.80_._.plain.test", "istio"), "nobody there takes TLS")
	require.Error(t, dial("outbound_.80_._.outside.test", "istio"), "which is not of the mesh")
	require.Error(t, dial("outbound|80||near.test", "istio"))
	require.Error(t, dial("near.test", "istio"))

	m.Run("a sidecar calls across", livemesh.File("across.yaml", livemesh.Object("ServiceEntry across", fmt.Sprintf(`
hosts: [across.test]
ports: [{number: 80, name: http, protocol: HTTP}]
resolution: STATIC
endpoints: [{address: %s, ports: {http: 15443}}]
`, m.Pod("istio-ingress").Pod)), livemesh.Object("DestinationRule across", `
host: across.test
trafficPolicy: {tls: {mode: ISTIO_MUTUAL, sni: outbound_.80_.one_.near.test, subjectAltNames: [`+
		spiffe("default", "v1")+`]}}
`)), func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "v1", m.Client("client-v1").Get("http://across.test/", livemesh.Host("across.test")))
	})
}
