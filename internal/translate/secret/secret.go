package secret

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// CertificateInput is a certificate and its key.
type CertificateInput struct {
	Name string // of the resource: model.SecretName
	Pair model.KeyPair
}

// AuthoritiesInput are authorities to check others by.
type AuthoritiesInput struct {
	Name        string // of the resource: model.AuthoritiesName
	Authorities model.Authorities
}

// Certificate is the secret of a certificate.
func Certificate(in CertificateInput) *tlsv3.Secret {
	return &tlsv3.Secret{Name: in.Name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline(in.Pair.Chain), PrivateKey: inline(in.Pair.Key),
	}}}
}

// Authorities is the secret of authorities.
func Authorities(in AuthoritiesInput) *tlsv3.Secret {
	v := &tlsv3.CertificateValidationContext{TrustedCa: inline(in.Authorities.Certificates)}
	if !in.Authorities.Revoked.IsEmpty() {
		v.Crl = inline(in.Authorities.Revoked)
	}
	return &tlsv3.Secret{Name: in.Name, Type: &tlsv3.Secret_ValidationContext{ValidationContext: v}}
}

func inline(s model.Sensitive) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte(s.Text())}}
}
