package cluster

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// SystemCAFile is where a proxy finds the authorities that its system trusts, for rules that name none. Envoy has no way
// to ask the system. Where the file is missing Envoy refuses the cluster, so that nothing is sent unverified.
const SystemCAFile = "/etc/ssl/certs/ca-certificates.crt"

// usable tells whether the rule's TLS can be honoured.
func usable(t *model.ClientTLS) bool {
	switch {
	case t == nil || t.Mode == model.Disable || t.Mode == model.Simple:
		return true
	case t.Mode == model.Mutual:
		return t.CertFile != "" && t.KeyFile != ""
	}
	return false
}

// tls secures the connections to the endpoints.
func (b *builder) tls(t *model.ClientTLS) {
	if t == nil || t.Mode == model.Disable {
		return
	}
	b.nameServer(t)
	common := &tlsv3.CommonTlsContext{
		TlsParams: &tlsv3.TlsParameters{
			TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2,
			TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
		},
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: validation(t)},
	}
	if t.Mode == model.Mutual {
		common.TlsCertificates = []*tlsv3.TlsCertificate{{CertificateChain: file(t.CertFile), PrivateKey: file(t.KeyFile)}}
	}
	if b.isHTTP2() {
		common.AlpnProtocols = []string{"h2"}
	}
	b.cluster.TransportSocket = &corev3.TransportSocket{
		Name: "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{
			TypedConfig: pb.Any(&tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: t.SNI}),
		},
	}
}

// nameServer asks for the request's own host where the rule does not name one, and then expects a certificate for it.
func (b *builder) nameServer(t *model.ClientTLS) {
	if t.SNI != "" {
		return
	}
	b.http().UpstreamHttpProtocolOptions = &corev3.UpstreamHttpProtocolOptions{
		AutoSni:           true,
		AutoSanValidation: len(t.SubjectAltNames) == 0 && !t.InsecureSkipVerify,
	}
}

// validation is how the server's certificate is checked: against an authority, and for the rule's names if it has any.
func validation(t *model.ClientTLS) *tlsv3.CertificateValidationContext {
	if t.InsecureSkipVerify {
		return &tlsv3.CertificateValidationContext{}
	}
	ca := t.CAFile
	if ca == "" {
		ca = SystemCAFile
	}
	v := &tlsv3.CertificateValidationContext{TrustedCa: file(ca)}
	for _, name := range t.SubjectAltNames {
		for _, kind := range nameKinds() {
			v.MatchTypedSubjectAltNames = append(v.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{
				SanType: kind,
				Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}},
			})
		}
	}
	return v
}

// nameKinds are the kinds of names in a certificate that a rule may mean.
func nameKinds() []tlsv3.SubjectAltNameMatcher_SanType {
	return []tlsv3.SubjectAltNameMatcher_SanType{
		tlsv3.SubjectAltNameMatcher_DNS, tlsv3.SubjectAltNameMatcher_URI, tlsv3.SubjectAltNameMatcher_IP_ADDRESS,
	}
}

func file(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}
