package convert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Keys of Secrets: those of Kubernetes' own type, and Istio's of any type.
const (
	tlsChain, tlsKey, tlsAuthorities, tlsRevoked = corev1.TLSCertKey, corev1.TLSPrivateKeyKey,
		kinds.AuthoritiesKey, "ca.crl"
	istioChain, istioKey, istioAuthorities, istioCRL = "cert", "key", "cacert", "crl"
)

// secret reads what a Secret holds for TLS, and ignores other Secrets. Problems name a part of it
// and never repeat its content.
func (r *reader) secret(in *corev1.Secret) []Object {
	if r.meta.Namespace == r.converter.defaults.RootNamespace && kinds.IsReservedSecret(r.meta.Name) {
		return r.ignore()
	}
	data := func(key string) string {
		if text, ok := in.StringData[key]; ok { // of a directory; an API server has put it into data
			return text
		}
		return string(in.Data[key])
	}
	chain, key, at := data(tlsChain), data(tlsKey), path("data")
	chainAt, keyAt := at.key(tlsChain), at.key(tlsKey)
	if in.Type != corev1.SecretTypeTLS && (chain == "" || key == "") {
		chain, key = data(istioChain), data(istioKey)
		chainAt, keyAt = at.key(istioChain), at.key(istioKey)
	}
	authorities, authoritiesAt := data(tlsAuthorities), at.key(tlsAuthorities)
	revoked, revokedAt := data(tlsRevoked), at.key(tlsRevoked)
	if authorities == "" {
		authorities, authoritiesAt = data(istioAuthorities), at.key(istioAuthorities)
		revoked, revokedAt = data(istioCRL), at.key(istioCRL)
	}
	paired := in.Type == corev1.SecretTypeTLS || chain != "" && key != ""
	if !paired && authorities == "" || in.Type == corev1.SecretTypeServiceAccountToken {
		return r.ignore()
	}
	c := &model.Credential{Meta: r.meta}
	if paired {
		c.Pair = r.keyPair(pemValue{chain, chainAt}, pemValue{key, keyAt}, r.observed)
		c.BadPair = c.Pair == nil
	}
	if authorities != "" {
		c.Authorities = r.authorities(pemValue{authorities, authoritiesAt}, pemValue{revoked, revokedAt}, r.observed)
		c.BadAuthorities = c.Authorities == nil
	}
	return []Object{c}
}

// pemValue is a value of a Secret and its location.
type pemValue struct {
	text string
	at   path
}

const wantChain = "certificates in PEM, the server's own first"

// keyPair checks a certificate and its key as Envoy would. It returns nil if Envoy would refuse
// them.
func (r *reader) keyPair(chain, key pemValue, observed time.Time) *model.KeyPair {
	certificates := r.certificates(chain, wantChain)
	if key.text == "" {
		r.fail(key.at, nil, "is missing or empty", "the private key of the certificate, in PEM")
	}
	if len(certificates) == 0 || key.text == "" {
		return nil
	}
	if _, err := tls.X509KeyPair([]byte(chain.text), []byte(key.text)); err != nil {
		r.fail(key.at, nil, keyMistake(err), "the private key of the certificate, in PEM and not encrypted")
		return nil
	}
	if wrong := keyWeakness(certificates[0].PublicKey); wrong != "" {
		r.fail(chain.at, nil, wrong, "RSA of 2048 bits or more, or ECDSA with P-256, P-384 or P-521")
		return nil
	}
	r.validity(chain.at, certificates[:1], observed)
	return &model.KeyPair{Chain: model.NewSensitive(chain.text), Key: model.NewSensitive(key.text)}
}

// keyMistake says what is wrong with a key, without any of its content.
func keyMistake(err error) string {
	if err.Error() == "tls: private key does not match public key" ||
		err.Error() == "tls: private key type does not match public key type" {
		return "is not the key of the certificate"
	}
	return "is no private key that can be read"
}

// keyWeakness returns why Envoy refuses a kind of key, or "".
func keyWeakness(public any) string {
	const smallest = 2048
	switch k := public.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < smallest {
			return fmt.Sprintf("has an RSA key of %d bits", k.N.BitLen())
		}
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P224() {
			return "has an ECDSA key of the curve P-224"
		}
	default:
		return "has a key of a kind that proxies do not take"
	}
	return ""
}

// authorities reads CA certificates. It returns nil if some cannot be read.
func (r *reader) authorities(list, revoked pemValue, observed time.Time) *model.Authorities {
	certificates := r.certificates(list, "certificates of authorities in PEM")
	if len(certificates) == 0 {
		return nil
	}
	r.validity(list.at, certificates, observed)
	if revoked.text != "" && !r.revocations(revoked) {
		return nil // without the list, those that are on it would get in
	}
	return &model.Authorities{Certificates: model.NewSensitive(list.text), Revoked: model.NewSensitive(revoked.text)}
}

// certificates reads one or more certificates. It returns none if something cannot be read.
func (r *reader) certificates(in pemValue, want string) []*x509.Certificate {
	if in.text == "" {
		r.fail(in.at, nil, "is missing or empty", want)
		return nil
	}
	var found []*x509.Certificate
	for rest := []byte(in.text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			r.fail(in.at, nil, fmt.Sprintf("certificate %d cannot be read", len(found)+1), want)
			return nil
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		r.fail(in.at, nil, "holds no certificate", want)
	}
	return found
}

func (r *reader) revocations(in pemValue) bool {
	block, _ := pem.Decode([]byte(in.text))
	if block == nil || block.Type != "X509 CRL" {
		r.fail(in.at, nil, "holds no list of revoked certificates", "a list in PEM")
		return false
	}
	if _, err := x509.ParseRevocationList(block.Bytes); err != nil {
		r.fail(in.at, nil, "the list of revoked certificates cannot be read", "a list in PEM")
		return false
	}
	return true
}

// validity warns of certificates that were not valid when the Secret was seen. They are served: the
// clients' clocks decide.
func (r *reader) validity(p path, certificates []*x509.Certificate, observed time.Time) {
	if observed.IsZero() {
		return
	}
	for _, c := range certificates {
		switch {
		case observed.After(c.NotAfter):
			r.warn(p, nil, "expired on "+c.NotAfter.UTC().Format(time.RFC3339), "a certificate that is valid")
		case observed.Before(c.NotBefore):
			r.warn(p, nil, "is not valid before "+c.NotBefore.UTC().Format(time.RFC3339), "a certificate that is valid")
		}
	}
}
