package pb

import (
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// SecretOverADS refers to a secret that comes over the stream. As with Istio the fetch has a
// timeout, Envoy's default of 15 s: a secret that never comes must not keep a whole listener from
// opening.
func SecretOverADS(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: OverADS()}
}

// Names of what an agent of Istio serves to its proxy over SDS, and of the cluster by which the
// proxy's bootstrap reaches it.
const (
	agentCluster     = "sds-grpc"
	agentCertificate = "default"
	agentAuthorities = "ROOTCA"
)

// OwnCertificate refers to the certificate that the proxy's agent has from the mesh.
func OwnCertificate() *tlsv3.SdsSecretConfig { return required(secretOfAgent(agentCertificate)) }

// CertificateOfAgent refers to a certificate and its key in files that the proxy's agent reads, and
// reads again when they change. What waits for one that is missing is closed, and lets all else
// open.
func CertificateOfAgent(chain, key string) *tlsv3.SdsSecretConfig {
	return optional(secretOfAgent("file-cert:" + chain + "~" + key))
}

// AuthoritiesOfAgent checks others by authorities in a file that the proxy's agent reads, and by
// what is demanded of them besides.
func AuthoritiesOfAgent(
	file string, demands *tlsv3.CertificateValidationContext,
) *tlsv3.CommonTlsContext_CombinedValidationContext {
	return CheckedBy(optional(secretOfAgent("file-root:"+file)), demands)
}

// MeshAuthorities checks others by the authorities of the mesh, and by what is demanded of them
// besides.
func MeshAuthorities(demands *tlsv3.CertificateValidationContext) *tlsv3.CommonTlsContext_CombinedValidationContext {
	return CheckedBy(required(secretOfAgent(agentAuthorities)), demands)
}

// CheckedBy checks others by authorities that are a secret, and by what is demanded of them
// besides.
func CheckedBy(
	authorities *tlsv3.SdsSecretConfig, demands *tlsv3.CertificateValidationContext,
) *tlsv3.CommonTlsContext_CombinedValidationContext {
	return &tlsv3.CommonTlsContext_CombinedValidationContext{
		CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
			DefaultValidationContext: demands, ValidationContextSdsSecretConfig: authorities,
		},
	}
}

// secretOfAgent refers to a secret that the proxy's agent serves. Whoever refers to one sees to it
// that there is an agent: Envoy refuses a message that names a cluster which its bootstrap lacks.
func secretOfAgent(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType:                   corev3.ApiConfigSource_GRPC,
			TransportApiVersion:       corev3.ApiVersion_V3,
			SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: agentCluster},
			}}},
		}},
		ResourceApiVersion: corev3.ApiVersion_V3,
	}}
}

// required makes the fetch of a secret go on for ever, as with Istio: without its certificate a
// proxy is no part of the mesh, and an agent answers as soon as it has one.
func required(c *tlsv3.SdsSecretConfig) *tlsv3.SdsSecretConfig {
	c.SdsConfig.InitialFetchTimeout = Duration(0)
	return c
}

// fileFetch is how long a listener waits for a file's secret before it opens without. An agent that
// has the file answers at once.
const fileFetch = 2 * time.Second

// optional makes a listener open without a secret that does not come.
func optional(c *tlsv3.SdsSecretConfig) *tlsv3.SdsSecretConfig {
	c.SdsConfig.InitialFetchTimeout = Duration(fileFetch)
	return c
}

// File is a file on the proxy's machine.
func File(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}

// InlineText is text that stands in the message itself.
func InlineText(text string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}
}

// TakesMeshTLS is what the metadata of an endpoint says that takes mutual TLS of the mesh, and what
// a cluster asks for (Istio's "tlsMode": "istio").
func TakesMeshTLS() *structpb.Struct { return Text("tlsMode", "istio") }

// Text is a structure of one field.
func Text(key, value string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{key: structpb.NewStringValue(value)}}
}

// AnyName matches certificates that have one of the names, of whatever kind that may be.
func AnyName(names []string) []*tlsv3.SubjectAltNameMatcher {
	kinds := []tlsv3.SubjectAltNameMatcher_SanType{
		tlsv3.SubjectAltNameMatcher_DNS, tlsv3.SubjectAltNameMatcher_URI, tlsv3.SubjectAltNameMatcher_IP_ADDRESS,
	}
	var matchers []*tlsv3.SubjectAltNameMatcher
	for _, name := range names {
		may := kinds
		if strings.Contains(name, "://") { // as an identity: of no other kind, and there may be many
			may = []tlsv3.SubjectAltNameMatcher_SanType{tlsv3.SubjectAltNameMatcher_URI}
		}
		for _, kind := range may {
			matchers = append(matchers, &tlsv3.SubjectAltNameMatcher{
				SanType: kind,
				Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}},
			})
		}
	}
	return matchers
}

// AnyOfDomains matches certificates that have an identity in one of the trust domains.
func AnyOfDomains(domains []string) []*tlsv3.SubjectAltNameMatcher {
	var matchers []*tlsv3.SubjectAltNameMatcher
	for _, domain := range domains {
		matchers = append(matchers, &tlsv3.SubjectAltNameMatcher{
			SanType: tlsv3.SubjectAltNameMatcher_URI,
			Matcher: &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "spiffe://" + domain + "/"},
			},
		})
	}
	return matchers
}
