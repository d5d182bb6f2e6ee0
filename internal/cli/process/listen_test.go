package process

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlaintextBeyondLoopbackNeedsAFlag(t *testing.T) {
	everywhere := ListenFlags{XDS: "0.0.0.0:0", Monitoring: "127.0.0.1:0"}
	_, _, err := everywhere.Listen()
	require.ErrorContains(t, err, "--xds-address 0.0.0.0:0 is no loopback address, and what it serves is in "+
		"plaintext; want 127.0.0.1:PORT, --secure-xds-address for TLS, or "+
		"--insecure-plaintext if the network is trusted")
	for _, c := range []struct {
		flags                 ListenFlags
		trustLoopback         bool
		trusts, refusesTokens bool
	}{
		{flags: ListenFlags{XDS: "127.0.0.1:0"}, trustLoopback: true, trusts: true},
		{flags: ListenFlags{XDS: "127.0.0.1:0"}},
		{flags: ListenFlags{XDS: "127.0.0.1:0", TrustPlaintext: true}, trusts: true},
		{flags: ListenFlags{XDS: "0.0.0.0:0", insecurePlaintext: true}, trustLoopback: true},
		{flags: ListenFlags{XDS: "0.0.0.0:0", TrustPlaintext: true}, trusts: true, refusesTokens: true},
	} {
		c.flags.Monitoring = "127.0.0.1:0"
		xds, monitoring, err := c.flags.Listen()
		require.NoError(t, err)
		require.NoError(t, monitoring.Close())
		p := c.flags.Plaintext(xds, c.trustLoopback)
		require.Equal(t, []bool{c.trusts, c.refusesTokens}, []bool{p.TrustsAll, p.RefusesTokens}, "%+v", c)
		require.Equal(t, xds.Addr(), p.Address)
		require.NoError(t, xds.Close())
	}
}
