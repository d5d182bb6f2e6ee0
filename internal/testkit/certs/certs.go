// Package certs makes certificates for tests: authorities, and pairs that they issue. It imports
// nothing of Lateen.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serials tells certificates apart.
var serials atomic.Int64

// Authority issues certificates.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	// PEM is its own certificate.
	PEM string
}

// Pair is a certificate and its key in PEM.
type Pair struct {
	Certificate, Key string
	// Serial tells it from others.
	Serial string
}

// NewAuthority makes an authority.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	key := newKey(t, false)
	template := newTemplate(name)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign

	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &Authority{certificate: parsed, key: key, PEM: encode("CERTIFICATE", der)}
}

// Option changes a certificate before it is issued.
type Option func(*request)

type request struct {
	template *x509.Certificate
	rsa      bool
}

// RSA gives it a key of RSA in the place of ECDSA.
func RSA(r *request) { r.rsa = true }

// Valid sets the time in which it is valid.
func Valid(from, to time.Time) Option {
	return func(r *request) { r.template.NotBefore, r.template.NotAfter = from, to }
}

// Identity makes it that of a workload of the mesh, by its SPIFFE id, in place of the name of a
// host.
func Identity(id string) Option {
	return func(r *request) {
		r.template.DNSNames = nil
		r.template.URIs = []*url.URL{{Scheme: "spiffe", Host: "", Opaque: strings.TrimPrefix(id, "spiffe:")}}
	}
}

// Names are those of the hosts, in place of one name.
func Names(names ...string) Option {
	return func(r *request) { r.template.DNSNames = names }
}

// Issue makes a certificate for names of hosts, which is good for servers and clients.
func (a *Authority) Issue(t testing.TB, name string, options ...Option) Pair {
	t.Helper()
	r := request{template: newPeerTemplate(name)}
	r.template.DNSNames = []string{name}
	for _, o := range options {
		o(&r)
	}
	key := newKey(t, r.rsa)
	der, err := x509.CreateCertificate(rand.Reader, r.template, a.certificate, key.Public(), a.key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return Pair{
		Certificate: encode("CERTIFICATE", der),
		Key:         encode("PRIVATE KEY", private),
		Serial:      r.template.SerialNumber.String(),
	}
}

// Sign makes a certificate for the key, names and identities of a request in PEM, valid until some
// time.
func (a *Authority) Sign(csr []byte, until time.Time) (certificate string, err error) {
	block, _ := pem.Decode(csr)
	if block == nil {
		return "", errors.New("want PEM")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "", err
	}
	template := newPeerTemplate(r.Subject.CommonName)
	template.DNSNames, template.URIs, template.NotAfter = r.DNSNames, r.URIs, until
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, r.PublicKey, a.key)
	return encode("CERTIFICATE", der), err
}

// Certificate is its own.
func (a *Authority) Certificate() *x509.Certificate { return a.certificate }

// Revoke is a list of revoked certificates in PEM.
func (a *Authority) Revoke(t testing.TB, pairs ...Pair) string {
	t.Helper()
	list := &x509.RevocationList{
		Number:     big.NewInt(serials.Add(1)),
		ThisUpdate: time.Now().Add(-time.Hour),
		NextUpdate: time.Now().Add(time.Hour),
	}
	for _, p := range pairs {
		serial, _ := new(big.Int).SetString(p.Serial, 10)
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: serial, RevocationTime: time.Now().Add(-time.Minute)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.certificate, a.key)
	require.NoError(t, err)
	return encode("X509 CRL", der)
}

// Pool has the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// TLS is the pair as crypto/tls wants it.
func (p Pair) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair([]byte(p.Certificate), []byte(p.Key))
	require.NoError(t, err)
	return c
}

// Secret is the manifest of a Secret of type kubernetes.io/tls, with authorities unless they are
// empty.
func (p Pair) Secret(namespace, name, authorities string) string {
	data := map[string]string{"tls.crt": p.Certificate, "tls.key": p.Key}
	if authorities != "" {
		data["ca.crt"] = authorities
	}
	return Secret(namespace, name, "kubernetes.io/tls", data)
}

// Secret is the manifest of a Secret.
func Secret(namespace, name, kind string, data map[string]string) string {
	text := fmt.Sprintf("\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\ntype: %s\ndata:\n",
		name, namespace, kind)
	for _, key := range []string{"tls.crt", "tls.key", "ca.crt", "ca.crl", "cert", "key", "cacert", "crl"} {
		if v, ok := data[key]; ok {
			text += fmt.Sprintf("  %s: %s\n", key, base64.StdEncoding.EncodeToString([]byte(v)))
		}
	}
	return text
}

func newKey(t testing.TB, ofRSA bool) crypto.Signer {
	if ofRSA {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(t, err)
		return key
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func newTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
}

// newPeerTemplate is that of a certificate which is good for servers and clients.
func newPeerTemplate(name string) *x509.Certificate {
	template := newTemplate(name)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return template
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
