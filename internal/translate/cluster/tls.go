package cluster

import (
	"cmp"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// SystemCAFile is where a proxy finds the authorities that its system trusts, for rules that name
// none. Envoy has no way to ask the system. Where the file is missing Envoy refuses the cluster, so
// that nothing is sent unverified.
const SystemCAFile = "/etc/ssl/certs/ca-certificates.crt"

// usable tells whether the rule's TLS can be honoured; secured, whether the credential that it
// names or means is there.
func usable(t *model.ClientTLS, secured bool) bool {
	switch {
	case t != nil && t.NeedsCredential() && !secured:
		return false
	case t == nil || t.Mode == model.Disable || t.Mode == model.Simple || t.Mode == model.IstioMutual:
		return true
	case t.Mode == model.Mutual:
		return t.Certificate != "" || t.Credential != "" || t.CertFile != "" && t.KeyFile != ""
	}
	return false
}

// tls secures the connections to the endpoints. Within the mesh they ask for sni, unless the rule
// names a server.
func (b *builder) tls(t *model.ClientTLS, sni string) {
	if t == nil || t.Mode == model.Disable {
		return
	}
	if t.Mode == model.IstioMutual {
		b.meshTLS(t, sni)
		return
	}
	b.nameServer(t)
	common := &tlsv3.CommonTlsContext{TlsParams: b.tlsParams()}
	check(t, common)
	switch {
	case t.Mode != model.Mutual:
	case t.Certificate != "":
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{
			pb.SecretOverADS(model.SecretName(t.Certificate)),
		}
	case t.Credential != "":
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{
			pb.SecretOverADS(model.SecretName(t.Credential)),
		}
	default:
		common.TlsCertificates = []*tlsv3.TlsCertificate{{
			CertificateChain: pb.File(t.CertFile),
			PrivateKey:       pb.File(t.KeyFile),
		}}
	}
	if b.isHTTP2() {
		common.AlpnProtocols = []string{"h2"}
	}
	b.secure(&tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: t.SNI})
}

// presenting is TLS with a certificate of the client's own.
func presenting(t *model.ClientTLS, credential string) *model.ClientTLS {
	if t == nil || t.Mode != model.Simple {
		return t
	}
	with := *t
	with.Mode, with.Certificate = model.Mutual, credential
	return &with
}

// meshALPN are the protocols (ALPN) by which a proxy of the mesh tells another one that it calls,
// and what the connection carries, as Istio's proxies do. So a server tells requests from bytes on
// a port that does not say what it speaks. Such a port is called for requests: who calls it for
// bytes says so for the connection (listener.Chain.Bytes).
func (b *builder) meshALPN() []string {
	switch {
	case !b.speaks.IsHTTP() && b.speaks != model.Auto && b.exchange:
		return []string{pb.ExchangeProtocol, "istio"}
	case !b.speaks.IsHTTP() && b.speaks != model.Auto:
		return []string{"istio"}
	case b.isHTTP2():
		return []string{"istio-h2", "h2"}
	default:
		return []string{"istio-http/1.1"}
	}
}

// demanding is the rule's TLS with the names that it leaves to others.
func demanding(t *model.ClientTLS, names *model.List[string]) *model.ClientTLS {
	if t == nil || len(t.SubjectAltNames) > 0 || names.Len() == 0 {
		return t
	}
	with := *t
	with.SubjectAltNames = slices.Collect(names.All())
	return &with
}

// meshTLS is mutual TLS with the certificate that the proxy's agent has. Without names, whoever has
// a certificate of the mesh may answer.
func (b *builder) meshTLS(t *model.ClientTLS, sni string) {
	common := &tlsv3.CommonTlsContext{
		TlsParams:                      b.tlsParams(),
		AlpnProtocols:                  b.meshALPN(),
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{pb.OwnCertificate()},
		ValidationContextType: pb.MeshAuthorities(&tlsv3.CertificateValidationContext{
			MatchTypedSubjectAltNames: pb.AnyName(t.SubjectAltNames),
		}),
	}
	b.secure(&tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: cmp.Or(t.SNI, sni)})
	if b.exchange {
		b.cluster.Filters = []*clusterv3.Filter{{Name: pb.ExchangeFilter, TypedConfig: pb.ConnectionExchange()}}
	}
}

// autoTLS is mutual TLS of the mesh with the endpoints that say that they take it. Plaintext is
// what is left for others. Of a cluster that connects to the address which the caller picked, no
// endpoint says anything: all take it.
func (b *builder) autoTLS(names *model.List[string], sni string, all bool) {
	b.meshTLS(demanding(&model.ClientTLS{Mode: model.IstioMutual}, names), sni)
	if all {
		return
	}
	b.cluster.TransportSocketMatches = []*clusterv3.Cluster_TransportSocketMatch{{
		Name: "tlsMode-istio", Match: pb.TakesMeshTLS(), TransportSocket: b.cluster.TransportSocket,
	}}
	b.cluster.TransportSocket = nil
}

func (b *builder) tlsParams() *tlsv3.TlsParameters {
	p := &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2,
		TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
	}
	if limits := b.limits; limits != nil {
		p.CipherSuites, p.EcdhCurves = limits.Ciphers, limits.Curves
		if limits.MinVersion == model.TLS13 {
			p.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TLSv1_3
		}
		pb.Comply(p, limits.Compliance)
	}
	return p
}

func (b *builder) secure(c *tlsv3.UpstreamTlsContext) {
	b.cluster.TransportSocket = transport("envoy.transport_sockets.tls", c)
}

func transport(name string, config proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name: name, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pb.Any(config)},
	}
}

// nameServer asks for the request's own host where the rule does not name one, and then expects a
// certificate for it.
func (b *builder) nameServer(t *model.ClientTLS) {
	if t.SNI != "" {
		return
	}
	b.http().UpstreamHttpProtocolOptions = &corev3.UpstreamHttpProtocolOptions{
		AutoSni:           true,
		AutoSanValidation: len(t.SubjectAltNames) == 0 && !t.InsecureSkipVerify,
	}
}

// check says how the server's certificate is checked: by authorities of the credential, or of a
// file.
func check(t *model.ClientTLS, common *tlsv3.CommonTlsContext) {
	if t.Credential == "" || t.InsecureSkipVerify {
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: validation(t)}
		return
	}
	common.ValidationContextType = pb.CheckedBy(
		pb.SecretOverADS(model.AuthoritiesName(t.Credential)),
		&tlsv3.CertificateValidationContext{MatchTypedSubjectAltNames: pb.AnyName(t.SubjectAltNames)},
	)
}

// validation is how the server's certificate is checked: against authorities, and for the rule's
// names if it has any.
func validation(t *model.ClientTLS) *tlsv3.CertificateValidationContext {
	if t.InsecureSkipVerify {
		return &tlsv3.CertificateValidationContext{}
	}
	authorities := pb.File(cmp.Or(t.CAFile, SystemCAFile))
	if t.Authorities != "" {
		authorities = pb.InlineText(t.Authorities)
	}
	v := &tlsv3.CertificateValidationContext{TrustedCa: authorities}
	if t.RevokedFile != "" {
		v.Crl = pb.File(t.RevokedFile)
	}
	v.MatchTypedSubjectAltNames = pb.AnyName(t.SubjectAltNames)
	return v
}
