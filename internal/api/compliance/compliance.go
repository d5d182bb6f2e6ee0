// Package compliance is COMPLIANCE_POLICY of istiod and pilot-agent: the rule of an authority on
// what TLS may use. It limits connections of programs in Go; translate/pb limits those of proxies.
//
// It may import nothing of the product.
package compliance

import (
	"crypto/tls"
	"fmt"
	"slices"
)

// Policy is a rule. The zero value demands nothing.
type Policy uint8

// The rules.
const (
	None Policy = iota
	// FIPS1402 is FIPS 140-2: TLS 1.2, AES-GCM with ECDHE, P-256.
	FIPS1402
	// FIPS1403 is FIPS 140-3, as Envoy's FIPS_202205 has it: TLS 1.2 or 1.3, AES-GCM with ECDHE,
	// P-256 or P-384.
	FIPS1403
	// PostQuantum is TLS 1.3 whose keys are exchanged by X25519MLKEM768 alone.
	PostQuantum
)

// names are those of Istio.
func names() []string { return []string{"", "fips-140-2", "fips-140-3", "pqc"} }

// Parse returns the rule of a name; empty is None.
func Parse(name string) (Policy, error) {
	if i := slices.Index(names(), name); i >= 0 {
		return Policy(i), nil //nolint:gosec // a place in a list of four
	}
	return None, fmt.Errorf("there is no policy %q; want fips-140-2, fips-140-3 or pqc", name)
}

// String returns the rule's name; empty for None.
func (p Policy) String() string { return names()[p] }

// Limit narrows what connections may use. What a policy does not speak of stays as it is. The
// ciphers of TLS 1.3 are Go's own choice, unless GODEBUG has fips140=on.
func (p Policy) Limit(c *tls.Config) {
	switch p {
	case None:
	case FIPS1402:
		c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		c.CipherSuites, c.CurvePreferences = approvedIDs(), []tls.CurveID{tls.CurveP256}
	case FIPS1403:
		c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
		c.CipherSuites, c.CurvePreferences = approvedIDs(), []tls.CurveID{tls.CurveP256, tls.CurveP384}
	case PostQuantum:
		c.MinVersion, c.CurvePreferences = tls.VersionTLS13, []tls.CurveID{tls.X25519MLKEM768}
	}
}

// cipher is a cipher of TLS 1.2, in Go and by its name in OpenSSL and Envoy.
type cipher struct {
	id   uint16
	name string
}

// approved are the ciphers that both versions of FIPS 140 let pass.
func approved() []cipher {
	return []cipher{
		{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256"},
		{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256"},
		{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384"},
		{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384"},
	}
}

func approvedIDs() (ids []uint16) {
	for _, c := range approved() {
		ids = append(ids, c.id)
	}
	return ids
}

// ApprovedCiphers returns the names in Envoy of the ciphers of TLS 1.2 that both versions of FIPS
// 140 let pass.
func ApprovedCiphers() (names []string) {
	for _, c := range approved() {
		names = append(names, c.name)
	}
	return names
}
