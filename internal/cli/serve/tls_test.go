package serve

import (
	"crypto/tls"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/compliance"
)

// TestFlagsLimitTLS reads the flags, also in the forms of other programs; a policy stands above
// them.
func TestFlagsLimitTLS(t *testing.T) {
	limited := func(policy compliance.Policy, args ...string) (*tls.Config, error) {
		var f presenceFlags
		cmd := &cobra.Command{}
		f.bind(cmd)
		if err := cmd.ParseFlags(args); err != nil {
			return nil, err
		}
		c := &tls.Config{MinVersion: tls.VersionTLS12}
		f.limitTLS(policy)(c)
		return c, nil
	}
	c, err := limited(compliance.None)
	require.NoError(t, err)
	require.Equal(t, uint16(tls.VersionTLS12), c.MinVersion)
	require.Empty(t, c.CipherSuites)
	for _, version := range []string{"1.3", "VersionTLS13", "TLSV1_3", "TLSv1.3"} {
		c, err = limited(compliance.None, "--tls-min-version", version)
		require.NoError(t, err)
		require.Equal(t, uint16(tls.VersionTLS13), c.MinVersion)
	}
	const cipher = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
	c, err = limited(compliance.None, "--tls-cipher-suites", cipher)
	require.NoError(t, err)
	require.Equal(t, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384}, c.CipherSuites)
	c, err = limited(compliance.FIPS1402, "--tls-min-version", "1.3")
	require.NoError(t, err)
	require.Equal(t, uint16(tls.VersionTLS12), c.MaxVersion)

	_, err = limited(compliance.None, "--tls-min-version", "1.1")
	require.ErrorContains(t, err, `"1.1" is no version that is taken; want 1.2 or 1.3`)
	_, err = limited(compliance.None, "--tls-cipher-suites", "TLS_RSA_WITH_RC4_128_SHA")
	require.ErrorContains(t, err, "is no cipher that is taken; want TLS_ECDHE")
}
