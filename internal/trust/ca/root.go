package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"time"
)

// rootLives is how long a self-signed root lives.
const rootLives = 10 * 365 * 24 * time.Hour

// root is a self-signed certificate and its key.
type root struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// newRoot makes a root. Its name has a part of its serial number, so that no two have the same. It
// does not name the trust domain, which may change while the root stays.
func newRoot(now time.Time) (root, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return root{}, err
	}
	serial, err := newSerial()
	if err != nil {
		return root{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject: pkix.Name{
			Organization: []string{"Lateen"},
			CommonName:   fmt.Sprintf("Lateen root %.8x", serial.Bytes()),
		},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(rootLives),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	c, err := certify(template, root{template, key}, key.Public())
	return root{c, key}, err
}

// certify signs a template for a key.
func certify(template *x509.Certificate, by root, key crypto.PublicKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, by.certificate, key, by.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// crossSign returns a certificate for the key of r that is signed by another root. With it, a
// client that trusts the other root alone verifies what r has signed.
func crossSign(r, by root, now time.Time) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	expires := r.certificate.NotAfter
	if end := by.certificate.NotAfter; expires.After(end) {
		expires = end
	}
	return certify(&x509.Certificate{
		SerialNumber:          serial,
		RawSubject:            r.certificate.RawSubject,
		SubjectKeyId:          r.certificate.SubjectKeyId,
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              expires,
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, by, r.certificate.PublicKey)
}

func (r root) encodeKey() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(r.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
