package features

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestListenerSetsAndCertificatesOfClients is a Gateway with the listeners of another namespace,
// and one that lets clients in by their certificates.
func TestListenerSetsAndCertificatesOfClients(t *testing.T) {
	authority, clients := certs.NewAuthority(t, "the gateway's"), certs.NewAuthority(t, "the clients'")
	one, set := authority.Issue(t, "one.test"), authority.Issue(t, "set.test")
	m := tlsMesh(t,
		one.Secret("default", "one", ""), set.Secret("other", "set", ""),
		bundle("clients", clients.PEM), bundle("bad", "no certificate"),
		livemesh.Object("HTTPRoute web", `
parentRefs: [{name: public}]
rules: [{backendRefs: [{name: web, port: 80}]}]
`),
		livemesh.Object("HTTPRoute other/far", `
parentRefs: [{kind: ListenerSet, name: more}]
rules: [{backendRefs: [{name: far, port: 80}]}]
`),
		livemesh.Object("ListenerSet other/more", `
parentRef: {name: public, namespace: default}
listeners:
- {name: plain, port: 8080, protocol: HTTP, hostname: set.test}
- {name: same, port: 8080, protocol: HTTP, hostname: own.test}
- {name: https, port: 8443, protocol: HTTPS, hostname: set.test, tls: {certificateRefs: [{name: set}]}}
`),
	)
	gateway := func(more string) string {
		return livemesh.File("gateway.yaml", livemesh.Object(kubernetesGateway+" public", `
gatewayClassName: istio
addresses: [{type: Hostname, value: istio-ingress}]
listeners:
- {name: plain, port: 8080, protocol: HTTP, hostname: own.test}
- {name: https, port: 8443, protocol: HTTPS, hostname: one.test, tls: {certificateRefs: [{name: one}]}}
- {name: other, port: 8444, protocol: HTTPS, hostname: one.test, tls: {certificateRefs: [{name: one}]}}
`+more))
	}
	const all = "allowedListeners: {namespaces: {from: All}}\n"
	plain := m.Gateway("istio-ingress", 8080)
	certificate := clients.Issue(t, "client").TLS(t)
	known := trusting(authority)
	known.Certificates = []tls.Certificate{certificate}
	stranger := trusting(authority)
	stranger.Certificates = []tls.Certificate{authority.Issue(t, "stranger").TLS(t)}
	as := func(port uint16, who *tls.Config, url string) livemesh.Answer {
		return m.SecureGateway("istio-ingress", port, who).Get(url)
	}
	nobody := trusting(authority)

	m.Run("no ListenerSet is allowed", gateway(""), func(t *testing.T, _ *livemesh.Mesh) {
		requireVersion(t, "v1", plain.Get("/", livemesh.Host("own.test")))
		requireStatus(t, 404, plain.Get("/", livemesh.Host("set.test")))
		require.Error(t, as(8443, nobody, "https://set.test/").Err)
	})
	m.Run("all are", gateway(all), func(t *testing.T, _ *livemesh.Mesh) {
		requireVersion(t, "v1", plain.Get("/", livemesh.Host("own.test"))) // the Gateway's own comes first
		requireVersion(t, "v2", plain.Get("/", livemesh.Host("set.test")))
		requireVersion(t, "v1", as(8443, nobody, "https://one.test/"))
		requireVersion(t, "v2", as(8443, nobody, "https://set.test/"))
	})
	frontend := func(name, more string) string {
		return all + `tls:
  frontend:
    default: {validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: ` + name + `}]` + more + `}}
    perPort: [{port: 8444, tls: {}}]
`
	}
	m.Run("clients need a certificate", gateway(frontend("clients", "")), func(t *testing.T, _ *livemesh.Mesh) {
		for _, url := range []string{"https://one.test/", "https://set.test/"} {
			require.True(t, as(8443, known, url).OK(), url)
			require.Error(t, as(8443, nobody, url).Err, url)
			require.Error(t, as(8443, stranger, url).Err, url)
		}
		requireVersion(t, "v1", as(8444, nobody, "https://one.test/"))
		requireVersion(t, "v1", plain.Get("/", livemesh.Host("own.test")))
	})
	m.Run("no authority is left", gateway(frontend("bad", "")), func(t *testing.T, _ *livemesh.Mesh) {
		require.Error(t, as(8443, known, "https://one.test/").Err)
		require.Error(t, as(8443, nobody, "https://set.test/").Err)
		requireVersion(t, "v1", as(8444, nobody, "https://one.test/"))
	})
	m.Run("everybody is let in", gateway(frontend("clients", ", mode: AllowInsecureFallback")),
		func(t *testing.T, _ *livemesh.Mesh) {
			for _, who := range []*tls.Config{known, nobody, stranger} {
				requireVersion(t, "v1", as(8443, who, "https://one.test/"))
			}
		})
}

// TestTLSRouteOfAServiceLeadsByServerName is a TLSRoute whose parent is a Service.
func TestTLSRouteOfAServiceLeadsByServerName(t *testing.T) {
	authority := certs.NewAuthority(t, "test authority")
	here, there := secureBackend(t, authority.Issue(t, "a.test")), secureBackend(t, authority.Issue(t, "b.test"))
	tlsPort := func(s string) string { return strings.ReplaceAll(s, "name: http", "name: tls") }
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), tlsPort(at("here", here)), tlsPort(at("there", there)),
		livemesh.Object("TLSRoute there", `
parentRefs: [{group: "", kind: Service, name: here, port: 444}]
hostnames: [b.test]
rules: [{backendRefs: [{name: there, port: 444}]}]
`),
	))
	speaks := func(name string) error {
		c := tls.Client(m.Dial("client-v1", 444), &tls.Config{RootCAs: authority.Pool(), ServerName: name})
		defer func() { _ = c.Close() }()
		return c.HandshakeContext(t.Context())
	}
	require.NoError(t, speaks("b.test"))
	require.Error(t, speaks("a.test"), "no route is for it")
}
