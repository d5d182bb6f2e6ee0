package features

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// secureBackend starts a server of HTTPS that answers with the name that it was asked for.
func secureBackend(t *testing.T, pair certs.Pair, options ...func(*tls.Config)) net.Addr {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-sni", r.TLS.ServerName)
		_, _ = fmt.Fprint(w, `{"version": "secure"}`)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS(t)}, MinVersion: tls.VersionTLS12}
	for _, o := range options {
		o(server.TLS)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr()
}

// requiringClients has a server answer none but clients with a certificate of an authority.
func requiringClients(a *certs.Authority) func(*tls.Config) {
	return func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, a.Pool() }
}

// at is a Service without a selector whose one endpoint is an address.
func at(name string, a net.Addr) string {
	host, port, _ := net.SplitHostPort(a.String())
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: default}
spec:
  ports: [{name: http, port: 443}, {name: http-other, port: 444}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, namespace: default, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
endpoints: [{addresses: [%[2]s], conditions: {ready: true}}]
ports: [{name: http, port: %[3]s}, {name: http-other, port: %[3]s}]
`, name, host, port)
}

// bundle is a ConfigMap with authorities.
func bundle(name, pem string) string {
	return fmt.Sprintf("\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\ndata:\n"+
		"  ca.crt: |\n    %s\n", name, strings.ReplaceAll(strings.TrimSpace(pem), "\n", "\n    "))
}

// backendTLS is a BackendTLSPolicy for the Service secure.
func backendTLS(name, section, validation string) string {
	return livemesh.Object("BackendTLSPolicy "+name, `
targetRefs: [{group: "", kind: Service, name: secure`+section+`}]
validation: `+validation+`
`)
}

// TestBackendTLSPolicySecuresCalls is the way from a gateway, and from a sidecar, to a server of
// TLS.
func TestBackendTLSPolicySecuresCalls(t *testing.T) {
	authority, other := certs.NewAuthority(t, "the backend's"), certs.NewAuthority(t, "another")
	backend := secureBackend(t, authority.Issue(t, "backend.test", certs.Names("backend.test", "second.test")))
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080), livemesh.NewEcho("client", "v1"), at("secure", backend),
		bundle("right", authority.PEM), bundle("wrong", other.PEM), bundle("bad", "no certificate"),
		livemesh.Object(kubernetesGateway+" public", `
gatewayClassName: istio
addresses: [{type: Hostname, value: istio-ingress}]
listeners: [{name: any, port: 8080, protocol: HTTP}]
`),
		livemesh.Object("HTTPRoute secure", `
parentRefs: [{name: public}]
rules:
- matches: [{path: {value: /other}}]
  backendRefs: [{name: secure, port: 444}]
- backendRefs: [{name: secure, port: 443}]
`),
	))
	gateway, client := m.Gateway("istio-ingress", 8080), m.Client("client-v1")
	run := func(name, policies string, want map[string]int) {
		m.Run(name, livemesh.File("policy.yaml", policies), func(t *testing.T, m *livemesh.Mesh) {
			for path, status := range want {
				a := gateway.Get(path, livemesh.Host("any.test"))
				requireStatus(t, status, a)
				if status == http.StatusOK {
					require.Equal(t, "backend.test", a.Header.Get("x-sni"))
				}
				if path == "/" {
					requireStatus(t, status, client.Get("http://secure.default:443/"))
				}
			}
		})
	}
	ca := func(name, more string) string {
		return `{hostname: backend.test, caCertificateRefs: [{group: "", kind: ConfigMap, name: ` + name + `}]` +
			more + `}`
	}
	const ok, closed = http.StatusOK, http.StatusServiceUnavailable
	both := func(status int) map[string]int { return map[string]int{"/": status, "/other": status} }
	run("no policy", "", both(http.StatusBadRequest)) // as the server answers plaintext
	run("the right authority", backendTLS("p", "", ca("right", "")), both(ok))
	run("the wrong authority", backendTLS("p", "", ca("wrong", "")), both(closed))
	run("no such ConfigMap", backendTLS("p", "", ca("missing", "")), both(closed))
	run("no certificate in it", backendTLS("p", "", ca("bad", "")), both(closed))
	run("another name", backendTLS("p", "", strings.Replace(ca("right", ""), "backend.test", "other.test", 1)),
		both(closed))
	run("a name of its certificate", backendTLS("p", "",
		ca("right", ", subjectAltNames: [{type: Hostname, hostname: second.test}]")), both(ok))
	run("a name that it lacks", backendTLS("p", "",
		ca("right", ", subjectAltNames: [{type: URI, uri: 'spiffe://a/b'}]")), both(closed))
	run("one port", backendTLS("p", ", sectionName: http-other", ca("right", "")),
		map[string]int{"/": http.StatusBadRequest, "/other": ok})
	run("a port before the rest", backendTLS("p", ", sectionName: http", ca("wrong", ""))+
		backendTLS("q", "", ca("right", "")), map[string]int{"/": closed, "/other": ok})
	run("the first of two", backendTLS("a", "", ca("right", ""))+backendTLS("b", "", ca("wrong", "")), both(ok))
	run("a DestinationRule says otherwise", backendTLS("p", "", ca("right", ""))+livemesh.Object(
		"DestinationRule plain", "host: secure\ntrafficPolicy: {tls: {mode: DISABLE}}\n",
	), both(http.StatusBadRequest))
	run("a DestinationRule says something else", backendTLS("p", "", ca("right", ""))+livemesh.Object(
		"DestinationRule pool", "host: secure\ntrafficPolicy: {connectionPool: {tcp: {maxConnections: 9}}}\n",
	), both(ok))
	m.Run("the authorities of the system", livemesh.File("policy.yaml",
		backendTLS("p", "", "{hostname: backend.test, wellKnownCACertificates: System}")),
		func(t *testing.T, m *livemesh.Mesh) {
			if _, err := os.Stat(cluster.SystemCAFile); err != nil {
				t.Skip("the system has none: ", err)
			}
			for workload, get := range map[string]func() livemesh.Answer{
				"istio-ingress": func() livemesh.Answer { return gateway.Get("/", livemesh.Host("any.test")) },
				"client-v1":     func() livemesh.Answer { return client.Get("http://secure.default:443/") },
			} {
				before := unverified(t, m, workload)
				requireStatus(t, closed, get())
				require.Greater(t, unverified(t, m, workload), before, "none of them signed the certificate")
				clusters := m.Proxy(workload).Types[resource.Cluster]
				require.Empty(t, clusters.Nack)
				require.Empty(t, clusters.Quarantined)
			}
		})
}

// unverified is how many certificates of the Service secure the proxy of a workload has refused
// because none of the authorities that it trusts signed them.
func unverified(t *testing.T, m *livemesh.Mesh, workload string) int {
	t.Helper()
	sum := 0
	for line := range strings.Lines(m.Admin(workload, `/stats?filter=secure.*ssl\.fail_verify_error`)) {
		_, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.Atoi(value)
		require.NoError(t, err, line)
		sum += n
	}
	return sum
}

// TestGatewayPresentsItsCertificate is a server that wants to know who calls.
func TestGatewayPresentsItsCertificate(t *testing.T) {
	authority := certs.NewAuthority(t, "both")
	backend := secureBackend(t, authority.Issue(t, "backend.test"), requiringClients(authority))
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.GatewayPod(8080), at("secure", backend), bundle("ca", authority.PEM),
		backendTLS("p", "", `{hostname: backend.test, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}`),
		livemesh.Object("HTTPRoute secure", `
parentRefs: [{name: public}]
rules: [{backendRefs: [{name: secure, port: 443}]}]
`),
	))
	gateway := func(more string) string {
		return livemesh.File("gateway.yaml", livemesh.Object(kubernetesGateway+" public", `
gatewayClassName: istio
addresses: [{type: Hostname, value: istio-ingress}]
listeners: [{name: any, port: 8080, protocol: HTTP}]
`+more))
	}
	get := func() livemesh.Answer { return m.Gateway("istio-ingress", 8080).Get("/", livemesh.Host("any.test")) }
	m.Run("none", gateway(""), func(t *testing.T, _ *livemesh.Mesh) {
		requireStatus(t, http.StatusServiceUnavailable, get())
	})
	m.Run("its Secret", gateway("tls: {backend: {clientCertificateRef: {name: mine}}}\n"),
		func(t *testing.T, m *livemesh.Mesh) {
			requireStatus(t, http.StatusServiceUnavailable, get()) // there is none yet
			m.Write("secret.yaml", authority.Issue(t, "client").Secret("default", "mine", ""))
			m.Settle()
			requireStatus(t, http.StatusOK, get())
			m.Delete("secret.yaml")
			m.Settle()
			requireStatus(t, http.StatusServiceUnavailable, get())
		})
}
