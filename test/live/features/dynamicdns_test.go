package features

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestNamesBelowAWildcardAreLookedUp is resolution DYNAMIC_DNS: a proxy looks up what a request or
// a connection names, and connects to no address of its own machine.
func TestNamesBelowAWildcardAreLookedUp(t *testing.T) {
	machine := machineAddress(t)
	authority := certs.NewAuthority(t, "partners")
	certificate := authority.Issue(t, "partner", certs.Names("*.partner.test")).TLS(t)
	plain, secured := serveTwice(t, machine, nil), serveTwice(t, machine, &certificate)
	m := livemesh.StartWith(t, livemesh.Options{Bootstrap: resolvedBy(serveNames(t, map[string][]string{
		"a.partner.test":     {machine.String()},
		"both.partner.test":  {"127.0.0.1", machine.String()},
		"own.partner.test":   {"127.0.0.1"},
		"any.partner.test":   {"0.0.0.0"},
		"cloud.partner.test": {"169.254.169.254"},
		"a.other.test":       {machine.String()},
	}))}, livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"))+registryOnly+
		livemesh.File("partners.yaml", livemesh.Object("ServiceEntry partners", fmt.Sprintf(`
hosts: ["*.partner.test"]
location: MESH_EXTERNAL
resolution: DYNAMIC_DNS
ports:
- {number: %d, name: http, protocol: HTTP}
- {number: %d, name: tls, protocol: TLS}
`, plain, secured))))
	m.RequireNoProblems()
	client := m.Client("client-v1")
	get := func(name string, port uint16) livemesh.Answer {
		return client.Get(fmt.Sprintf("http://%s:%d/", name, port))
	}
	closed := []string{"own.partner.test", "any.partner.test", "cloud.partner.test", "nobody.partner.test"}
	t.Run("by host", func(t *testing.T) {
		for _, name := range []string{"a.partner.test", "both.partner.test"} {
			a := get(name, plain)
			requireStatus(t, 200, a)
			require.Equal(t, machine.String(), a.Body)
		}
		for _, name := range closed {
			requireStatus(t, 503, get(name, plain))
		}
		requireStatus(t, 502, get("a.other.test", plain))
		requireStatus(t, 502, get("a.partner.test", plain+1))
	})
	t.Run("by server name", func(t *testing.T) {
		for _, name := range []string{"a.partner.test", "both.partner.test"} {
			got, err := overTLS(m.Dial("client-v1", secured), name)
			require.NoError(t, err)
			require.Equal(t, machine.String()+" "+name, got)
		}
		for _, name := range append(slices.Clone(closed), "a.other.test") {
			_, err := overTLS(m.Dial("client-v1", secured), name)
			require.Error(t, err, name)
		}
	})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, []byte(authority.PEM), 0o600))
	trusting := func(ca string) string {
		return livemesh.File("rule.yaml", livemesh.Object("DestinationRule partners",
			"host: \"*.partner.test\"\ntrafficPolicy: {tls: {mode: SIMPLE, caCertificates: "+ca+"}}\n"),
			livemesh.Object("ServiceEntry originated", fmt.Sprintf(`
hosts: ["*.partner.test"]
location: MESH_EXTERNAL
resolution: DYNAMIC_DNS
ports: [{number: %d, name: http, protocol: HTTP}]
`, secured)))
	}
	m.Delete("partners.yaml")
	m.Run("over TLS of the proxy", trusting(ca), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		a := get("a.partner.test", secured)
		requireStatus(t, 200, a)
		require.Equal(t, machine.String()+" a.partner.test", a.Body)
		requireStatus(t, 503, get("own.partner.test", secured))
	})
	other := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(other, []byte(certs.NewAuthority(t, "others").PEM), 0o600))
	m.Run("of a server that nobody vouches for", trusting(other), func(t *testing.T, m *livemesh.Mesh) {
		requireStatus(t, 503, get("a.partner.test", secured))
	})
}

// machineAddress is an address of this machine that others reach it by.
func machineAddress(t *testing.T) netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr()
		}
	}
	t.Skip("this machine has no address but loopback ones")
	return netip.Addr{}
}

// serveTwice answers at one port of an address of the machine and of loopback with the address that
// was reached, and in TLS with the server name that was asked for.
func serveTwice(t *testing.T, machine netip.Addr, certificate *tls.Certificate) (port uint16) {
	t.Helper()
	outside, inside := listenTwice(t, machine)
	for _, l := range []net.Listener{outside, inside} {
		at := netip.MustParseAddrPort(l.Addr().String())
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, at.Addr())
			if r.TLS != nil {
				_, _ = fmt.Fprint(w, " ", r.TLS.ServerName)
			}
		}))
		_ = s.Listener.Close()
		s.Listener, port = l, at.Port()
		if certificate != nil {
			s.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}}
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(func() {
			s.CloseClientConnections()
			s.Close()
		})
	}
	return port
}

// listenTwice listens at one port of two addresses.
func listenTwice(t *testing.T, machine netip.Addr) (outside, inside net.Listener) {
	t.Helper()
	for range 20 {
		outside, err := net.Listen("tcp", netip.AddrPortFrom(machine, 0).String())
		require.NoError(t, err)
		port := netip.MustParseAddrPort(outside.Addr().String()).Port()
		if inside, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			return outside, inside
		}
		_ = outside.Close()
	}
	require.Fail(t, "no port is free at both addresses")
	return nil, nil
}

// serveNames answers questions for IPv4 addresses of names, and says of others that there are none.
func serveNames(t *testing.T, names map[string][]string) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		for _, address := range names[strings.TrimSuffix(q.Question[0].Name, ".")] {
			if q.Question[0].Qtype == dns.TypeA {
				m.Answer = append(m.Answer, &dns.A{
					Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
					A:   net.ParseIP(address),
				})
			}
		}
		_ = w.WriteMsg(m)
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.ActivateAndServe() // it ends with an error, as the test closes its connection
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	return netip.MustParseAddrPort(conn.LocalAddr().String())
}

// resolvedBy is a bootstrap with a name server.
func resolvedBy(at netip.AddrPort) string {
	return fmt.Sprintf(`
typed_dns_resolver_config:
  name: envoy.network.dns_resolver.cares
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig
    resolvers: [{socket_address: {address: %s, port_value: %d}}]
`, at.Addr(), at.Port())
}

// TestUnknownHostsAreLookedUp is ALLOW_ANY_DYNAMIC_DNS: requests for hosts that the mesh does not
// know go to what these resolve to, but to no address of the proxy's own machine.
func TestUnknownHostsAreLookedUp(t *testing.T) {
	machine := machineAddress(t)
	port := serveTwice(t, machine, nil)
	m := livemesh.StartWith(t, livemesh.Options{Bootstrap: resolvedBy(serveNames(t, map[string][]string{
		"a.unknown.test":   {machine.String()},
		"own.unknown.test": {"127.0.0.1"},
	}))}, livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"), livemesh.Service("client", "http:80:8080"))+
		strings.Replace(registryOnly, "REGISTRY_ONLY", "ALLOW_ANY_DYNAMIC_DNS", 1))
	client := m.Client("client-v1")
	requireVersion(t, "v1", client.Get("http://client/"))
	for _, host := range []string{"a.unknown.test", machine.String()} {
		a := client.Get(fmt.Sprintf("http://%s:%d/", host, port))
		requireStatus(t, 200, a)
		require.Equal(t, machine.String(), a.Body)
	}
	for _, host := range []string{"own.unknown.test", "nobody.unknown.test", "localhost", "127.0.0.1", "0.0.0.0"} {
		requireStatus(t, 503, client.Get(fmt.Sprintf("http://%s:%d/", host, port)))
	}
}
