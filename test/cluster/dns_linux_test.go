package cluster

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

// allocated are the addresses that hosts of ServiceEntries get.
var allocated = netip.MustParsePrefix("240.240.0.0/16")

// namesWithoutAddress are hosts of ServiceEntries that no DNS knows. The agent of a Pod that
// captures DNS answers with an address for each, by which the proxy tells them apart, though they
// share a port. Names of the cluster are answered too, and what the mesh does not know by the
// resolvers.
func namesWithoutAddress(t *testing.T, c *cluster) {
	v1, v2 := c.pods(t, "app=server,version=v1")[0], c.pods(t, "app=server,version=v2")[0]
	entry := func(name, ip string) string {
		return livemesh.Object("ServiceEntry "+name, "hosts: ["+name+".example.com]\nresolution: STATIC\n"+
			"ports:\n- {number: 9000, name: tcp, protocol: TCP}\n"+
			"- {number: 80, name: http, protocol: HTTP, targetPort: 8080}\n"+
			"endpoints: [{address: "+ip+"}]")
	}
	c.apply(t, captured(echo("asker", "v1", 1)), entry("first", v1.Status.PodIP), entry("second", v2.Status.PodIP))
	c.ready(t, "asker-v1")
	w := c.from(t, "app=asker")
	found := map[string]netip.Addr{}
	for name, version := range map[string]string{"first": "v1", "second": "v2"} {
		host := name + ".example.com"
		c.await(t, host+" has an address of the mesh", func() bool {
			found[name] = w.resolve(t, host)
			return allocated.Contains(found[name])
		})
		w.untilLines(t, net.JoinHostPort(found[name].String(), "9000"), version)
		w.until(t, "http://"+found[name].String()+"/", "an answer of "+version, func(a answer) bool {
			return ok(a) && a.echoed.Version == version
		}, "Host: "+host)
	}
	require.NotEqual(t, found["first"], found["second"])
	server := c.names.Lookup("server", space)
	require.NotEmpty(t, server)
	require.Equal(t, server[0], w.resolve(t, "server.default.svc.cluster.local"))
	c.names.Add("outside.example.org", netip.MustParseAddr("192.0.2.9"))
	require.Equal(t, netip.MustParseAddr("192.0.2.9"), w.resolve(t, "outside.example.org"))
}

// captured is a Deployment whose agents answer DNS.
func captured(manifest string) string {
	return strings.Replace(manifest, "containers:\n", "containers:\n"+
		"      - {name: istio-proxy, image: auto, env: [{name: ISTIO_META_DNS_CAPTURE, value: 'true'}]}\n", 1)
}

// resolve asks the resolver of the Pod's resolv.conf for an IPv4 address; the zero value without
// one.
func (w *workload) resolve(t *testing.T, host string) netip.Addr {
	t.Helper()
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return w.pod.Dial(ctx, "udp", net.JoinHostPort(podnet.Gateway.String(), "53"))
	}}
	all, err := r.LookupNetIP(t.Context(), "ip4", host+".")
	if err != nil || len(all) == 0 {
		return netip.Addr{}
	}
	return all[0].Unmap()
}
