package kubeapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime is that of all certificates: longer than a test, shorter than a habit.
const lifetime = 30 * 24 * time.Hour

// authority signs the certificates of one server. Its serial numbers count up.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
	serial      int64
}

// pair is a certificate with its key, both as PEM.
type pair struct{ certificate, key []byte }

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lateen-test-kubernetes"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{certificate: certificate, key: key, pem: certificatePEM(der), serial: 1}, nil
}

// server makes the API server's certificate, for loopback and for the names and the address that
// pods would call it by.
func (a *authority) server() (pair, error) {
	return a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"},
		DNSNames: []string{
			"localhost",
			"kubernetes",
			"kubernetes.default",
			"kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
		},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 96, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// admin makes the certificate of a user who may do everything, by Kubernetes' own group for that.
func (a *authority) admin() (pair, error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "lateen-test-admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) sign(template *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	a.serial++
	template.SerialNumber = big.NewInt(a.serial)
	template.NotBefore, template.NotAfter = a.certificate.NotBefore, a.certificate.NotAfter
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return pair{}, err
	}
	keyBytes, err := keyPEM(key)
	return pair{certificate: certificatePEM(der), key: keyBytes}, err
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// keyPEM is in the form of SEC 1, the one from which Kubernetes takes the public half too.
func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// writeCertificates puts into dir what the processes read, and returns what a client of the API
// server needs.
func writeCertificates(dir string) (ca []byte, admin pair, err error) {
	signer, err := newAuthority()
	if err != nil {
		return nil, pair{}, err
	}
	server, err := signer.server()
	if err != nil {
		return nil, pair{}, err
	}
	if admin, err = signer.admin(); err != nil {
		return nil, pair{}, err
	}
	tokens, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, pair{}, err
	}
	tokenKey, err := keyPEM(tokens)
	if err != nil {
		return nil, pair{}, err
	}
	for name, content := range map[string][]byte{
		"ca.crt": signer.pem, "server.crt": server.certificate, "server.key": server.key, "tokens.key": tokenKey,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, pair{}, err
		}
	}
	return signer.pem, admin, nil
}
