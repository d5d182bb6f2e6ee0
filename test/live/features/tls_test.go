package features

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/local/sample"
	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// tlsMesh has a gateway with ports, and the services web and far behind it.
func tlsMesh(t *testing.T, parts ...any) *livemesh.Mesh {
	t.Helper()
	return livemesh.Start(t, livemesh.File("base.yaml", append([]any{
		livemesh.GatewayPod(8080, 8443, 8444),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		livemesh.NewEcho("far", "v2").In("other"), livemesh.Service("other/far", "http:80:8080"),
	}, parts...)...))
}

// secure is a Gateway with one server of HTTPS at port 8443, and a VirtualService that leads all of
// it to a service.
func secure(name, host, settings, to string) string {
	return livemesh.Object("Gateway "+name, `
selector: {istio: ingress}
servers:
- port: {number: 8443, name: https, protocol: HTTPS}
  hosts: [`+host+`]
  tls: `+settings+`
`) + livemesh.Object("VirtualService "+name, `
hosts: [`+host+`]
gateways: [`+name+`]
http:
- route: [{destination: {host: `+to+`}}]
`)
}

func trusting(a *certs.Authority) *tls.Config { return &tls.Config{RootCAs: a.Pool()} }

// TestGatewaysServeTLS is the way in, encrypted.
func TestGatewaysServeTLS(t *testing.T) {
	authority := certs.NewAuthority(t, "test authority")
	one, two := authority.Issue(t, "one.test"), authority.Issue(t, "two.test", certs.RSA)
	m := tlsMesh(t,
		certs.Secret("default", "two", "Opaque", map[string]string{"cert": two.Certificate, "key": two.Key}),
		secure("one", "one.test", "{mode: SIMPLE, credentialName: one}", "web"),
		secure("two", "two.test", "{mode: SIMPLE, credentialName: two}", "far.other.svc.cluster.local"),
	)
	m.Apply(livemesh.File("base-one.yaml", one.Secret("default", "one", "")))
	m.RequireNoProblems()
	client := m.SecureGateway("istio-ingress", 8443, trusting(authority))

	m.Run("a certificate for each server name", "", func(t *testing.T, m *livemesh.Mesh) {
		a := client.Get("https://one.test/")
		requireVersion(t, "v1", a)
		require.Equal(t, one.Serial, serial(a))
		require.Equal(t, "h2", a.TLS.NegotiatedProtocol)
		require.Equal(t, "https", a.Echoed.Headers.Get("x-forwarded-proto"))
		b := client.Get("https://two.test/")
		requireVersion(t, "v2", b)
		require.Equal(t, two.Serial, serial(b))
		require.Error(t, client.Get("https://three.test/").Err)
		requireStatus(t, 421, client.Get("https://one.test/", livemesh.Host("two.test")))
		requireStatus(t, 404, client.Get("https://one.test/", livemesh.Host("nobody.test")))
		require.Error(t, m.Gateway("istio-ingress", 8443).Get("/", livemesh.Host("one.test")).Err, "in plaintext")
	})
	m.Run("httpsRedirect on a server of HTTPS changes nothing", livemesh.File("redirect.yaml",
		secure("redirect", "redirect.test", "{mode: SIMPLE, credentialName: one, httpsRedirect: true}", "web"),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.AwaitProblem("warning", "Gateway default/redirect", "spec.servers[0].tls.httpsRedirect")
		//nolint:gosec // who answers is not what is tested
		client := m.SecureGateway("istio-ingress", 8443, &tls.Config{InsecureSkipVerify: true})
		requireVersion(t, "v1", client.Get("https://redirect.test/"))
	})
	m.Run("keys are shown nowhere", "", func(t *testing.T, m *livemesh.Mesh) {
		dump := m.Monitoring("/debug/config_dump?proxyID=" + m.Pod("istio-ingress").Name + ".default")
		require.Contains(t, dump, "kubernetes://one")
		require.Contains(t, dump, "SecretsConfigDump")
		for _, p := range []certs.Pair{one, two} {
			require.NotContains(t, dump, base64.StdEncoding.EncodeToString([]byte(p.Key)))
			require.NotContains(t, dump, base64.StdEncoding.EncodeToString([]byte(p.Certificate)))
		}
	})
	m.Run("clients with a certificate", livemesh.File("mutual.yaml",
		one.Secret("default", "mutual", authority.PEM),
		secure("mutual", "one.mutual.test", "{mode: MUTUAL, credentialName: mutual}", "web"),
		one.Secret("default", "apart", ""), certs.Secret("default", "apart-cacert", "Opaque",
			map[string]string{"cacert": authority.PEM}),
		secure("apart", "apart.mutual.test", "{mode: MUTUAL, credentialName: apart, subjectAltNames: [two.test]}",
			"web"),
		secure("optional", "optional.mutual.test", "{mode: OPTIONAL_MUTUAL, credentialName: mutual}", "web"),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		stranger := certs.NewAuthority(t, "another").Issue(t, "two.test")
		get := func(host string, with ...certs.Pair) livemesh.Answer {
			config := &tls.Config{InsecureSkipVerify: true}
			if len(with) > 0 { // shown even if the server does not say that it knows its authority
				own := with[0].TLS(t)
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					return &own, nil
				}
			}
			return m.SecureGateway("istio-ingress", 8443, config).Get("https://" + host + "/")
		}
		require.Error(t, get("one.mutual.test").Err)
		require.Error(t, get("one.mutual.test", stranger).Err)
		requireVersion(t, "v1", get("one.mutual.test", two))
		requireVersion(t, "v1", get("apart.mutual.test", two))
		require.Error(t, get("apart.mutual.test", one).Err, "whose name is not among those demanded")
		requireVersion(t, "v1", get("optional.mutual.test"))
		requireVersion(t, "v1", get("optional.mutual.test", two))
		require.Error(t, get("optional.mutual.test", stranger).Err)
	})
	m.Run("a certificate is revoked", livemesh.File("revoked.yaml",
		certs.Secret("default", "revoking", "kubernetes.io/tls", map[string]string{
			"tls.crt": one.Certificate, "tls.key": one.Key, "ca.crt": authority.PEM, "ca.crl": authority.Revoke(t, two),
		}), secure("revoking", "revoking.test", "{mode: MUTUAL, credentialName: revoking}", "web"),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		get := func(with certs.Pair) livemesh.Answer {
			config := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{with.TLS(t)}}
			return m.SecureGateway("istio-ingress", 8443, config).Get("https://revoking.test/")
		}
		requireVersion(t, "v1", get(one))
		require.Error(t, get(two).Err)
	})
	m.Run("two kinds of keys", livemesh.File("kinds.yaml",
		authority.Issue(t, "kinds.test").Secret("default", "kinds-ecdsa", ""),
		authority.Issue(t, "kinds.test", certs.RSA).Secret("default", "kinds-rsa", ""),
		secure("kinds", "kinds.test",
			"{mode: SIMPLE, credentialNames: [kinds-rsa, kinds-ecdsa], maxProtocolVersion: TLSV1_2}", "web"),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		for cipher, kind := range map[uint16]x509.PublicKeyAlgorithm{
			tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:   x509.RSA,
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: x509.ECDSA,
		} {
			config := trusting(authority)
			config.CipherSuites = []uint16{cipher}
			a := m.SecureGateway("istio-ingress", 8443, config).Get("https://kinds.test/")
			requireVersion(t, "v1", a)
			require.Equal(t, kind, a.TLS.PeerCertificates[0].PublicKeyAlgorithm)
			require.Equal(t, uint16(tls.VersionTLS12), a.TLS.Version)
		}
	})
	m.Run("a Secret that is wrong closes what names it, and nothing else", livemesh.File("wrong.yaml",
		certs.Secret("default", "garbage", "kubernetes.io/tls",
			map[string]string{"tls.crt": "garbage", "tls.key": "secret garbage"}),
		secure("garbage", "garbage.test", "{mode: SIMPLE, credentialName: garbage}", "web"),
		certs.Pair{Certificate: one.Certificate, Key: two.Key}.Secret("default", "crossed", ""),
		secure("crossed", "crossed.test", "{mode: SIMPLE, credentialName: crossed}", "web"),
		secure("nowhere", "nowhere.test", "{mode: SIMPLE, credentialName: nowhere}", "web"),
		one.Secret("other", "elsewhere", ""),
		secure("elsewhere", "elsewhere.test", "{mode: SIMPLE, credentialName: elsewhere}", "web"),
		authority.Issue(t, "expired.test", certs.Valid(time.Now().Add(-time.Hour),
			time.Now().Add(-time.Minute))).Secret("default", "expired", ""),
		secure("expired", "expired.test", "{mode: SIMPLE, credentialName: expired}", "web"),
		secure("member", "member.test", "{mode: ISTIO_MUTUAL}", "web"),
		secure("wildcard", `"*.test"`, "{mode: SIMPLE, credentialName: one}", "web"),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.AwaitProblem("error", "Secret default/garbage", `data["tls.crt"]`, "holds no certificate")
		m.AwaitProblem("error", "Secret default/crossed", `data["tls.key"]`, "is not the key of the certificate")
		m.AwaitProblem("warning", "Secret default/expired", "expired on")
		for _, name := range []string{"garbage", "crossed", "nowhere", "elsewhere"} {
			m.AwaitProblem("error", "Gateway default/"+name, "spec.servers[0].tls", "stays closed")
			require.Error(t, insecure(m).Get("https://"+name+".test/").Err)
			require.Error(t, m.Gateway("istio-ingress", 8443).Get("/", livemesh.Host(name+".test")).Err, "in plaintext")
		}
		m.AwaitProblem("error", "Gateway default/member", "spec.servers[0].tls.mode", "no agent", "stays closed")
		require.Error(t, insecure(m).Get("https://member.test/").Err)
		requireVersion(t, "v1", insecure(m).Get("https://expired.test/"))
		requireVersion(t, "v1", insecure(m).Get("https://else.test/"))
		requireVersion(t, "v1", m.SecureGateway("istio-ingress", 8443, trusting(authority)).Get("https://one.test/"))
		for _, p := range m.Problems() {
			require.NotContains(t, p.String(), "secret garbage")
		}
		require.Positive(t, m.Metric("lateen_problems", nil))
	})
	m.Run("rotated under load", "", func(t *testing.T, m *livemesh.Mesh) {
		load := client.Load("https://one.test/")
		fresh := trusting(authority)
		listeners := m.Proxy("istio-ingress").Types[resource.Listener].Sent
		for range 3 {
			next := authority.Issue(t, "one.test")
			m.Apply(livemesh.File("base-one.yaml", next.Secret("default", "one", "")))
			m.Await("the next certificate is shown", func() bool {
				a := m.SecureGateway("istio-ingress", 8443, fresh).Get("https://one.test/")
				requireVersion(t, "v1", a)
				return serial(a) == next.Serial
			})
			load.Advance(20)
		}
		load.Stop()
		require.Equal(t, listeners, m.Proxy("istio-ingress").Types[resource.Listener].Sent,
			"listeners are as they were")
	})
}

// insecure is a client that takes any certificate.
func insecure(m *livemesh.Mesh) *livemesh.Client {
	return m.SecureGateway("istio-ingress", 8443, &tls.Config{InsecureSkipVerify: true})
}

// serial tells which certificate a server showed.
func serial(a livemesh.Answer) string {
	if a.TLS == nil {
		return ""
	}
	return a.TLS.PeerCertificates[0].SerialNumber.String()
}

// TestConnectionsAreRoutedByServerName is TLS that passes through, and connections that are not
// HTTP.
func TestConnectionsAreRoutedByServerName(t *testing.T) {
	authority := certs.NewAuthority(t, "test authority")
	own, shown := authority.Issue(t, "own.test"), authority.Issue(t, "lines.test")
	behind := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(sample.Echoed{Version: "behind", Host: r.Host})
	}))
	behind.TLS = &tls.Config{Certificates: []tls.Certificate{own.TLS(t)}}
	behind.StartTLS()
	t.Cleanup(behind.Close)
	address := netip.MustParseAddrPort(strings.TrimPrefix(behind.URL, "https://"))
	m := tlsMesh(t,
		livemesh.NewEcho("lines", "v1").TCP(7000), livemesh.Service("lines", "tcp:9000:7000"),
		livemesh.Object("ServiceEntry own", fmt.Sprintf(`
hosts: [own.test]
ports: [{number: 443, name: tls, protocol: TLS}, {number: 80, name: http, protocol: HTTP}]
resolution: STATIC
endpoints: [{address: %s, ports: {tls: %d, http: %d}}]
`, address.Addr(), address.Port(), address.Port())),
		shown.Secret("default", "lines", ""),
		livemesh.Object("Gateway names", `
selector: {istio: ingress}
servers:
- port: {number: 8443, name: pass, protocol: TLS}
  hosts: [own.test, unrouted.test]
  tls: {mode: PASSTHROUGH}
- port: {number: 8443, name: lines, protocol: TLS}
  hosts: [lines.test]
  tls: {mode: SIMPLE, credentialName: lines}
- port: {number: 8444, name: plain, protocol: TCP}
  hosts: ["*"]
`),
		livemesh.Object("VirtualService names", `
hosts: [own.test, lines.test, unrouted.test, plain.test]
gateways: [names]
tls:
- match: [{sniHosts: [own.test]}]
  route: [{destination: {host: own.test, port: {number: 443}}}]
tcp:
- route: [{destination: {host: lines, port: {number: 9000}}}]
`),
	)
	m.RequireNoProblems()
	a := m.SecureGateway("istio-ingress", 8443, trusting(authority)).Get("https://own.test/")
	requireVersion(t, "behind", a)
	require.Equal(t, own.Serial, serial(a))
	require.Error(t, insecure(m).Get("https://unrouted.test/").Err)
	require.Error(t, insecure(m).Get("https://strange.test/").Err)

	pod := m.Pod("istio-ingress").Pod
	say := func(conn net.Conn, err error) string {
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprintln(conn, "hello")
		require.NoError(t, err)
		answer, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		return answer
	}
	config := trusting(authority)
	config.ServerName = "lines.test"
	conn, err := tls.Dial("tcp", netip.AddrPortFrom(pod, 8443).String(), config)
	inside := say(conn, err)
	require.Contains(t, inside, "hello")
	plain, err := net.Dial("tcp", netip.AddrPortFrom(pod, 8444).String())
	require.Equal(t, inside, say(plain, err))

	m.Run("a gateway calls with a credential", livemesh.File("egress.yaml",
		certs.Secret("default", "caller-cacert", "Opaque", map[string]string{"cacert": authority.PEM}),
		livemesh.Object("DestinationRule own", `
host: own.test
trafficPolicy:
  portLevelSettings:
  - port: {number: 80}
    tls: {mode: SIMPLE, credentialName: caller, sni: own.test, subjectAltNames: [own.test]}
`),
		livemesh.Object("Gateway out", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: [own.test]
`),
		livemesh.Object("VirtualService out", `
hosts: [own.test]
gateways: [out]
http:
- route: [{destination: {host: own.test, port: {number: 80}}}]
`)), func(t *testing.T, m *livemesh.Mesh) {
		require.Len(t, m.ProblemsWith("DestinationRule default/own", "closed to sidecars"), 1)
		require.Len(t, m.Problems(), 1)
		get := func() livemesh.Answer { return m.Gateway("istio-ingress", 8080).Get("/", livemesh.Host("own.test")) }
		requireVersion(t, "behind", get())
	})
}

// TestFirstGatewayHasAContestedPortOrName are conflicts for ports and server names: the first in
// the total order has them.
func TestFirstGatewayHasAContestedPortOrName(t *testing.T) {
	authority := certs.NewAuthority(t, "test authority")
	one, two := authority.Issue(t, "a.test"), authority.Issue(t, "a.test")
	m := tlsMesh(t, one.Secret("default", "one", ""), two.Secret("default", "two", ""),
		secure("a-first", "a.test", "{mode: SIMPLE, credentialName: one}", "web"),
		secure("b-second", "a.test", "{mode: SIMPLE, credentialName: two}", "far.other.svc.cluster.local"),
		secure("other/c-third", "c.test", "{mode: SIMPLE, credentialName: two}", "far"),
		livemesh.Object("Gateway d-plain", `
selector: {istio: ingress}
servers:
- port: {number: 8443, name: http, protocol: HTTP}
  hosts: [d.test]
`))
	m.AwaitProblem("error", "Gateway default/b-second", "spec.servers[0].hosts", "Gateway default/a-first has a.test")
	m.AwaitProblem("error", "Gateway default/d-plain", "spec.servers[0].port", "for another protocol")
	require.Len(t, m.Problems(), 2)
	a := insecure(m).Get("https://a.test/")
	requireVersion(t, "v1", a)
	require.Equal(t, one.Serial, serial(a))
	requireVersion(t, "v2", insecure(m).Get("https://c.test/"))
	require.Error(t, m.Gateway("istio-ingress", 8443).Get("/", livemesh.Host("d.test")).Err)
}
