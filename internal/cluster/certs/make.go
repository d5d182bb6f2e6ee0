package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"time"
)

// The lifetimes of certificates, and how long before their end they are renewed.
const (
	rootLives   = 10 * 365 * 24 * time.Hour
	rootRenewed = 365 * 24 * time.Hour // before its end
	leafLives   = 90 * 24 * time.Hour
	leafRenewed = 30 * 24 * time.Hour // before its end
	skew        = time.Hour           // that clocks of clients may be late
)

// The keys of the Secret. The first three are those that other tools use for a serving certificate.
const (
	certificateKey = "tls.crt"
	privateKey     = "tls.key"
	bundleKey      = "ca.crt"
	rootKey        = "ca.key"
)

// authority is a root and its key.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// renew returns the content that the Secret should have: the same if nothing is due. Invalid
// content is replaced.
func renew(data map[string][]byte, names []string, now time.Time) (map[string][]byte, error) {
	root, err := readRoot(data)
	bundle := data[bundleKey]
	if err != nil || now.After(root.certificate.NotAfter.Add(-rootRenewed)) {
		if root, err = newRoot(now); err != nil {
			return nil, err
		}
		// Whoever has only the new roots must still trust what is served until all replicas have
		// the new certificate.
		bundle = append(encodePEM("CERTIFICATE", root.certificate.Raw), unexpired(data[bundleKey], now)...)
	} else if isCurrent(data, root, names, now) {
		return data, nil
	}
	leaf, key, err := root.sign(names, now)
	if err != nil {
		return nil, err
	}
	rootDER, err := x509.MarshalECPrivateKey(root.key)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		certificateKey: leaf, privateKey: key, bundleKey: bundle, rootKey: encodePEM("EC PRIVATE KEY", rootDER),
	}, nil
}

// isCurrent reports whether the certificate is signed by the root, is for these names and is not
// due for renewal.
func isCurrent(data map[string][]byte, root *authority, names []string, now time.Time) bool {
	pair, err := tls.X509KeyPair(data[certificateKey], data[privateKey])
	if err != nil {
		return false
	}
	return pair.Leaf.CheckSignatureFrom(root.certificate) == nil && slices.Equal(pair.Leaf.DNSNames, names) &&
		now.Before(pair.Leaf.NotAfter.Add(-leafRenewed))
}

func readRoot(data map[string][]byte) (*authority, error) {
	first, _ := pem.Decode(data[bundleKey])
	key, _ := pem.Decode(data[rootKey])
	if first == nil || key == nil {
		return nil, errors.New("there is no root")
	}
	certificate, err := x509.ParseCertificate(first.Bytes)
	if err != nil {
		return nil, err
	}
	private, err := x509.ParseECPrivateKey(key.Bytes)
	if err != nil {
		return nil, err
	}
	if !private.PublicKey.Equal(certificate.PublicKey) {
		return nil, errors.New("the root's key is another's")
	}
	return &authority{certificate, private}, nil
}

// unexpired returns the first certificate of a bundle if it has not expired. There is one at most,
// as roots live long.
func unexpired(bundle []byte, now time.Time) []byte {
	block, _ := pem.Decode(bundle)
	if block == nil {
		return nil
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil || now.After(c.NotAfter) {
		return nil
	}
	return encodePEM("CERTIFICATE", block.Bytes)
}

func newRoot(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := template(now, rootLives)
	if err != nil {
		return nil, err
	}
	template.Subject = pkix.Name{CommonName: "Lateen serving root"}
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &authority{certificate, key}, err
}

// sign returns a serving certificate and its key, both in PEM.
func (a *authority) sign(names []string, now time.Time) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template, err := template(now, leafLives)
	if err != nil {
		return nil, nil, err
	}
	template.Subject = pkix.Name{CommonName: "Lateen"}
	template.DNSNames = names
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	return encodePEM("CERTIFICATE", der), encodePEM("EC PRIVATE KEY", keyDER), err
}

func template(now time.Time, lives time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-skew), NotAfter: now.Add(lives)}, err
}

func encodePEM(kind string, der []byte) []byte {
	var out bytes.Buffer
	_ = pem.Encode(&out, &pem.Block{Type: kind, Bytes: der}) // a buffer takes all that is written
	return out.Bytes()
}
