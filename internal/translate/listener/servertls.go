package listener

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// terminate returns the transport socket that ends TLS by the chain's settings, and by the limits
// of the mesh where these leave something open.
func (c *ServerChain) terminate(of builder) *corev3.TransportSocket {
	t := c.TLS
	common := &tlsv3.CommonTlsContext{TlsParams: c.params(of)}
	if c.RouteTable != "" ||
		t.Mode.OwnCertificate() { // as Istio's clients expect of connections that are not HTTP, too
		common.AlpnProtocols = []string{"h2", "http/1.1"}
	}
	if of.exchange {
		common.AlpnProtocols = append([]string{pb.ExchangeProtocol}, common.AlpnProtocols...)
	}
	if t.Mode.OwnCertificate() {
		common.TlsCertificateSdsSecretConfigs = append(common.TlsCertificateSdsSecretConfigs, pb.OwnCertificate())
	}
	for _, name := range t.Credentials {
		common.TlsCertificateSdsSecretConfigs = append(
			common.TlsCertificateSdsSecretConfigs, pb.SecretOverADS(model.SecretName(name)),
		)
	}
	for _, f := range t.Files {
		if c.FilesByAgent {
			common.TlsCertificateSdsSecretConfigs = append(
				common.TlsCertificateSdsSecretConfigs, pb.CertificateOfAgent(f.Chain, f.Key),
			)
			continue
		}
		common.TlsCertificates = append(common.TlsCertificates, &tlsv3.TlsCertificate{
			CertificateChain: pb.File(f.Chain),
			PrivateKey:       pb.File(f.Key),
		})
	}
	c.checkClients(common, of)
	return &corev3.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{
		TypedConfig: pb.Any(&tlsv3.DownstreamTlsContext{
			CommonTlsContext:         common,
			RequireClientCertificate: wrapperspb.Bool(t.Mode.ChecksClients() && t.Mode != model.ServerOptionalMutual),
		}),
	}}
}

func (c *ServerChain) params(of builder) *tlsv3.TlsParameters {
	t := c.TLS
	p := &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsVersion(t.MinVersion, tlsv3.TlsParameters_TLSv1_2),
		TlsMaximumProtocolVersion: tlsVersion(t.MaxVersion, tlsv3.TlsParameters_TLS_AUTO),
		CipherSuites:              t.Ciphers,
	}
	limits := of.TLSDefaults
	if t.Mode.OwnCertificate() {
		limits = of.MeshTLS
	}
	if limits == nil {
		return p
	}
	p.EcdhCurves = limits.Curves
	if len(p.CipherSuites) == 0 {
		p.CipherSuites = limits.Ciphers
	}
	if t.MinVersion == model.TLSAuto {
		p.TlsMinimumProtocolVersion = tlsVersion(limits.MinVersion, tlsv3.TlsParameters_TLSv1_2)
	}
	pb.Comply(p, limits.Compliance)
	return p
}

// checkClients sets how certificates of clients are checked. Authorities come over the stream or
// from a file. Demands on names and hashes stand in the listener itself.
func (c *ServerChain) checkClients(common *tlsv3.CommonTlsContext, of builder) {
	t := c.TLS
	if !t.Mode.ChecksClients() {
		return
	}
	own := &tlsv3.CertificateValidationContext{
		MatchTypedSubjectAltNames: pb.AnyName(t.SubjectAltNames),
		VerifyCertificateHash:     t.Hashes,
		VerifyCertificateSpki:     t.PublicKeys,
	}
	if t.AnyClient {
		own.TrustChainVerification = tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED
	}
	if t.Mode.OwnCertificate() {
		if len(t.SubjectAltNames) == 0 {
			own.MatchTypedSubjectAltNames = pb.AnyOfDomains(of.TrustDomains)
		}
		common.ValidationContextType = pb.MeshAuthorities(own)
		return
	}
	if t.CACredential != "" {
		common.ValidationContextType = pb.CheckedBy(pb.SecretOverADS(model.AuthoritiesName(t.CACredential)), own)
		return
	}
	if t.RevokedFile != "" {
		own.Crl = pb.File(t.RevokedFile)
	}
	if c.FilesByAgent {
		common.ValidationContextType = pb.AuthoritiesOfAgent(t.CAFile, own)
		return
	}
	own.TrustedCa = pb.File(t.CAFile)
	if t.Authorities != "" {
		own.TrustedCa = pb.InlineText(t.Authorities)
	}
	common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: own}
}

func tlsVersion(v model.TLSVersion, byDefault tlsv3.TlsParameters_TlsProtocol) tlsv3.TlsParameters_TlsProtocol {
	if v == model.TLSAuto {
		return byDefault
	}
	return tlsv3.TlsParameters_TlsProtocol(v) // the same numbers
}
