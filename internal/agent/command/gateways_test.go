package command

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGatewaysOfDefaultRoutes(t *testing.T) {
	a, ok := gatewayOf4(strings.Fields("eth0 00000000 0101F40A 0003 0 0 0 00000000 0 0 0"))
	require.True(t, ok)
	require.Equal(t, netip.MustParseAddr("10.244.1.1"), a)
	a, ok = gatewayOf6(strings.Fields("00000000000000000000000000000000 00 00000000000000000000000000000000 00 " +
		"fd000000000000000000000000000001 00000400 00000001 00000000 00000003 eth0"))
	require.True(t, ok)
	require.Equal(t, netip.MustParseAddr("fd00::1"), a)
	for _, line := range []string{
		"Iface Destination Gateway", "eth0 0000F40A 0101F40A", "eth0 00000000 00000000", "eth0 00000000 zz", "eth0",
	} {
		_, ok := gatewayOf4(strings.Fields(line))
		require.False(t, ok, line)
	}
	_, ok = gatewayOf6(strings.Fields("fd000000000000000000000000000000 40 0 00 fd000000000000000000000000000001"))
	require.False(t, ok)
}
