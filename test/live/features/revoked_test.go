package features

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestRevokedServersAreRefused is a list of revoked certificates in DestinationRules: a file for
// sidecars, and a part of the Secret for gateways.
func TestRevokedServersAreRefused(t *testing.T) {
	authority := certs.NewAuthority(t, "the servers'")
	good, bad := authority.Issue(t, "good.test"), authority.Issue(t, "bad.test")
	dir := t.TempDir()
	file := func(name, content string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		return filepath.Join(dir, name)
	}
	ca, none := file("ca.pem", authority.PEM), file("none.pem", authority.Revoke(t))
	revoked := file("revoked.pem", authority.Revoke(t, bad))
	entry := func(host string, pair certs.Pair) string {
		return entryAt(host, "{number: 80, name: p, protocol: HTTP}",
			netip.MustParseAddrPort(secureBackend(t, pair).String()))
	}
	m := livemesh.Start(t, livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"), livemesh.GatewayPod(8080),
		entry("good.test", good), entry("bad.test", bad),
		livemesh.Object("Gateway out", `
selector: {istio: ingress}
servers:
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: ["*.test"]
`),
		livemesh.Object("VirtualService good", "hosts: [good.test]\ngateways: [out]\nhttp:\n"+
			"- route: [{destination: {host: good.test}}]\n"),
		livemesh.Object("VirtualService bad", "hosts: [bad.test]\ngateways: [out]\nhttp:\n"+
			"- route: [{destination: {host: bad.test}}]\n")))
	rules := func(tls string) string {
		of := func(name string) string {
			return livemesh.Object("DestinationRule "+name,
				"host: "+name+".test\ntrafficPolicy: {tls: {sni: "+name+".test, "+tls+"}}\n")
		}
		return of("good") + of("bad")
	}
	client := m.Client("client-v1")
	for name, c := range map[string]struct {
		list          string
		toGood, toBad int
	}{
		"no list":       {"", 200, 200},
		"an empty list": {", caCrl: " + none, 200, 200},
		"a list":        {", caCrl: " + revoked, 200, 503},
	} {
		m.Run(name, livemesh.File("rules.yaml", rules("mode: SIMPLE, caCertificates: "+ca+c.list)),
			func(t *testing.T, m *livemesh.Mesh) {
				requireStatus(t, c.toGood, client.Get("http://good.test/"))
				requireStatus(t, c.toBad, client.Get("http://bad.test/"))
			})
	}
	secret := func(name, list string) string { // each has its own name: of a broken one, proxies keep what it held
		return certs.Secret("default", name+"-cacert", "Opaque", map[string]string{
			"cacert": authority.PEM, "crl": list,
		})
	}
	for name, c := range map[string]struct {
		secret, list  string
		toGood, toBad int
	}{
		"a list of the Secret":                {"peers", authority.Revoke(t, bad), 200, 503},
		"a list of the Secret that is broken": {"broken", "odd", 503, 503},
	} {
		m.Run(name, livemesh.File("rules.yaml", secret(c.secret, c.list),
			rules("mode: SIMPLE, credentialName: "+c.secret)),
			func(t *testing.T, m *livemesh.Mesh) {
				gateway := m.Gateway("istio-ingress", 8080)
				requireStatus(t, c.toGood, gateway.Get("/", livemesh.Host("good.test")))
				requireStatus(t, c.toBad, gateway.Get("/", livemesh.Host("bad.test")))
			})
	}
	m.Run("a file beside a Secret", livemesh.File("rules.yaml", secret("beside", authority.Revoke(t)),
		rules("mode: SIMPLE, credentialName: beside, caCrl: "+revoked)), func(t *testing.T, m *livemesh.Mesh) {
		m.AwaitProblem("DestinationRule default/good", "caCrl", "beside credentialName")
		requireStatus(t, 503, m.Gateway("istio-ingress", 8080).Get("/", livemesh.Host("good.test")))
	})
}
