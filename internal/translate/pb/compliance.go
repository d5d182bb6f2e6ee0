package pb

import (
	"slices"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/lateen-mesh/lateen/internal/api/compliance"
)

// Comply narrows the parameters of TLS to what a policy lets pass, whatever else was asked for.
func Comply(p *tlsv3.TlsParameters, policy compliance.Policy) {
	switch policy {
	case compliance.None:
	case compliance.FIPS1402:
		p.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TLSv1_2
		p.TlsMaximumProtocolVersion = tlsv3.TlsParameters_TLSv1_2
		p.CipherSuites, p.EcdhCurves = approved(p.CipherSuites), []string{"P-256"}
	case compliance.FIPS1403:
		// Envoy's own list leaves the versions at 1.2 and 1.3 alone, and comes after ciphers and
		// curves.
		p.TlsMinimumProtocolVersion = max(p.TlsMinimumProtocolVersion, tlsv3.TlsParameters_TLSv1_2)
		if p.TlsMaximumProtocolVersion != tlsv3.TlsParameters_TLS_AUTO {
			p.TlsMaximumProtocolVersion = max(p.TlsMaximumProtocolVersion, tlsv3.TlsParameters_TLSv1_2)
		}
		p.CipherSuites, p.EcdhCurves = approved(p.CipherSuites), nil
		p.CompliancePolicies = []tlsv3.TlsParameters_CompliancePolicy{tlsv3.TlsParameters_FIPS_202205}
	case compliance.PostQuantum:
		p.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TLSv1_3
		p.TlsMaximumProtocolVersion = tlsv3.TlsParameters_TLSv1_3
		p.CipherSuites, p.EcdhCurves = nil, []string{"X25519MLKEM768"}
	}
}

// approved returns the ciphers of TLS 1.2 that both versions of FIPS 140 let pass, of some; all of
// them if there are none: Envoy would take its own choice.
func approved(of []string) []string {
	all := []string{
		"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256",
		"ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384",
	}
	var left []string
	for _, cipher := range of {
		if slices.Contains(all, cipher) {
			left = append(left, cipher)
		}
	}
	if len(left) == 0 {
		return all
	}
	return left
}
