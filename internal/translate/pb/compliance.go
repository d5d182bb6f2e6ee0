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
		// FIPS_202205 demands TLS 1.2 or 1.3, and its curves, of itself. What an object says beside
		// it is kept within that.
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

// approved returns those of some ciphers of TLS 1.2 that both versions of FIPS 140 let pass, or all
// that do if there are none: Envoy would take its own choice.
func approved(of []string) []string {
	all := compliance.ApprovedCiphers()
	left := slices.DeleteFunc(slices.Clone(of), func(cipher string) bool { return !slices.Contains(all, cipher) })
	if len(left) == 0 {
		return all
	}
	return left
}
