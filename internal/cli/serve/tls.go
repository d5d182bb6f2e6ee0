package serve

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/lateen-mesh/lateen/internal/api/compliance"
	"github.com/lateen-mesh/lateen/internal/cli/command"
)

// checkTLS refuses versions and ciphers that do not exist.
func (f *presenceFlags) checkTLS(flags *pflag.FlagSet) {
	command.ValidateFlag(flags, "tls-min-version", func() error {
		if _, ok := versionOf(f.minTLS); !ok {
			return fmt.Errorf("%q is no version that is taken; want 1.2 or 1.3", f.minTLS)
		}
		return nil
	})
	command.ValidateFlag(flags, "tls-cipher-suites", func() error {
		all := cipherNames()
		for _, name := range f.ciphers {
			if !slices.Contains(all, name) {
				return fmt.Errorf("%q is no cipher that is taken; want %s", name, command.Alternatives(all))
			}
		}
		return nil
	})
}

// versionOf reads a version of TLS, also in the forms VersionTLS13, TLSv1.3 and TLSV1_3.
func versionOf(text string) (uint16, bool) {
	short := strings.NewReplacer("version", "", "tls", "", "v", "", ".", "", "_", "").Replace(strings.ToLower(text))
	switch short {
	case "12":
		return tls.VersionTLS12, true
	case "13":
		return tls.VersionTLS13, true
	}
	return 0, false
}

// limitTLS returns what narrows connections to the flags, and then to a policy.
func (f *presenceFlags) limitTLS(policy compliance.Policy) func(*tls.Config) {
	return func(c *tls.Config) {
		if version, ok := versionOf(f.minTLS); ok {
			c.MinVersion = version
		}
		for _, suite := range tls.CipherSuites() {
			if slices.Contains(f.ciphers, suite.Name) {
				c.CipherSuites = append(c.CipherSuites, suite.ID)
			}
		}
		policy.Limit(c)
	}
}

// cipherNames are those of TLS 1.2 that Go holds to be secure.
func cipherNames() (names []string) {
	for _, suite := range tls.CipherSuites() {
		if slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
			names = append(names, suite.Name)
		}
	}
	return names
}
