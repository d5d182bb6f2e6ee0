package app

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// Which families a proxy has, its metadata say (INSTANCE_IPS), or else the address in its name.
func TestStackOfANode(t *testing.T) {
	for _, c := range []struct {
		name string
		ips  []string
		dual bool
		want model.Stack
	}{
		{name: "10.0.0.1", want: model.IPv4Stack},
		{name: "::ffff:10.0.0.1", want: model.IPv4Stack},
		{name: "fd00::1", want: model.IPv6Stack},
		{name: "10.0.0.1", ips: []string{"fd00::1"}, want: model.IPv6Stack},
		{name: "fd00::1", ips: []string{"10.0.0.1"}, dual: true, want: model.IPv4Stack},
		{name: "10.0.0.1", ips: []string{"10.0.0.1", "fd00::1"}, want: model.BothStacks},
		{name: "10.0.0.1", ips: []string{"fd00::1", "10.0.0.1"}, dual: true, want: model.DualStack},
	} {
		n := &serve.Node{Address: netip.MustParseAddr(c.name)}
		for _, ip := range c.ips {
			n.Metadata.InstanceIPs = append(n.Metadata.InstanceIPs, netip.MustParseAddr(ip))
		}
		require.Equal(t, c.want, stackOf(n, c.dual), "%+v", c)
	}
}

// An intercepted proxy needs no port for HTTP proxying, so none that it states makes a class.
func TestProxyPortCountsWithoutInterceptionAlone(t *testing.T) {
	node := &serve.Node{Type: serve.Sidecar, Address: netip.MustParseAddr("10.0.0.1")}
	node.Metadata.HTTPProxyPort = 15007
	for mode, want := range map[serve.InterceptionMode]uint16{serve.Redirect: 0, serve.None: 15007} {
		node.Metadata.InterceptionMode = mode
		f, err := factsOf(node)
		require.NoError(t, err)
		require.Equal(t, want, f.Proxy.Settings.HTTPProxyPort)
	}
}

func TestClassIsMadeByTheFirstOfItsProxies(t *testing.T) {
	r := newRig(t, nil)
	node := func(name string) *serve.Node {
		n := &serve.Node{Type: serve.Sidecar, Address: netip.MustParseAddr("10.0.0.1"), Pod: name, Namespace: "default"}
		n.Metadata.InterceptionMode = serve.None
		return n
	}
	registry := r.pipeline.registry
	require.True(t, registry.makesClass(t.Context(), node("a"), serve.Identity{}))
	conn, err := registry.Connect(t.Context(), node("a"), serve.Identity{})
	require.NoError(t, err)
	defer conn.Close()
	require.False(t, registry.makesClass(t.Context(), node("b"), serve.Identity{}))
	other := node("b")
	other.Metadata.HTTPProxyPort = 15007
	require.True(t, registry.makesClass(t.Context(), other, serve.Identity{}))
	other.Metadata.InterceptionMode = serve.TProxy
	require.False(t, registry.makesClass(t.Context(), other, serve.Identity{}), "it is refused")
}
