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
