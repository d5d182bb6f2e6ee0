package certs

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
)

// issued is a certificate of the CA.
type issued struct {
	chain, key []byte // PEM; the chain is without roots
	roots      []byte // PEM
	pair       *tls.Certificate
}

const (
	createCertificate = "/istio.v1.auth.IstioCertificateService/CreateCertificate"
	callTimeout       = 30 * time.Second
	// maxChain is how many certificates a chain may have.
	maxChain = 16
)

// issue makes a key, and asks the CA for a certificate.
func (r Request) issue(ctx context.Context, ca *grpc.ClientConn) (*issued, error) {
	key, err := r.newKey()
	if err != nil {
		return nil, err
	}
	csr, err := r.csr(key)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer := &wire.Message{}
	if err := ca.Invoke(ctx, createCertificate, wire.Bytes(r.message(csr)), answer); err != nil {
		return nil, err
	}
	defer answer.Free()
	chain, err := parseAnswer(answer)
	if err != nil {
		return nil, err
	}
	return r.accept(chain, key)
}

func (r Request) newKey() (crypto.Signer, error) {
	if r.RSABits > 0 {
		return rsa.GenerateKey(rand.Reader, r.RSABits)
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// csr returns a signing request, in PEM.
func (r Request) csr(key crypto.Signer) ([]byte, error) {
	identity, err := url.Parse(r.Identity)
	if err != nil {
		return nil, fmt.Errorf("the workload's identity: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: []*url.URL{identity}}, key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// message returns an IstioCertificateRequest: the CSR (1), the seconds it should be valid for (3)
// and metadata (4), a google.protobuf.Struct.
func (r Request) message(csr []byte) []byte {
	b := wire.AppendBytes(nil, 1, csr)
	b = protowire.AppendTag(b, 3, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(r.TTL/time.Second)) //nolint:gosec // a time to live is not negative
	if r.Signer == "" {
		return b
	}
	value := wire.AppendBytes(nil, 3, []byte(r.Signer)) // Value.string_value
	entry := wire.AppendBytes(wire.AppendBytes(nil, 1, []byte("CertSigner")), 2, value)
	return wire.AppendBytes(b, 4, wire.AppendBytes(nil, 1, entry))
}

// parseAnswer returns the chain in an IstioCertificateResponse.
func parseAnswer(m *wire.Message) (chain [][]byte, err error) {
	r := m.Reader()
	for f := (wire.Field{}); r.Next(&f); {
		if f.Number == 1 && f.Size >= 0 && len(chain) < maxChain {
			chain = append(chain, []byte(r.String(f)))
			continue
		}
		r.Pass(f)
	}
	return chain, r.Err()
}

// accept checks what the CA has sent: the certificate is for the key and the identity, and the
// chain leads to one of its roots, which stand last.
func (r Request) accept(parts [][]byte, key crypto.Signer) (*issued, error) {
	certificates, err := parseParts(parts)
	if err != nil {
		return nil, fmt.Errorf("the CA's answer: %w", err)
	}
	leaf := certificates[0]
	if public, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(key.Public()) {
		return nil, errors.New("the CA's answer: the certificate is for another key than that of the request")
	}
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != r.Identity {
		return nil, fmt.Errorf("the CA's answer: the certificate is for %v; want %s", leaf.URIs, r.Identity)
	}
	chain, roots := splitRoots(certificates)
	if err := verify(chain, roots); err != nil {
		return nil, fmt.Errorf("the CA's answer: %w", err)
	}
	i := &issued{pair: &tls.Certificate{PrivateKey: key, Leaf: leaf}}
	if i.key, err = r.encodeKey(key); err != nil {
		return nil, err
	}
	for _, c := range chain {
		i.chain = append(i.chain, encode(c)...)
		i.pair.Certificate = append(i.pair.Certificate, c.Raw)
	}
	for _, c := range roots {
		i.roots = append(i.roots, encode(c)...)
	}
	return i, nil
}

// splitRoots splits the roots off a chain: the self-signed certificates at its end, or the last one
// if a CA's root is none. While a root is replaced there are two.
func splitRoots(all []*x509.Certificate) (chain, roots []*x509.Certificate) {
	at := len(all) - 1
	for at > 1 && isSelfSigned(all[at]) && isSelfSigned(all[at-1]) {
		at--
	}
	return all[:at], all[at:]
}

func isSelfSigned(c *x509.Certificate) bool { return c.CheckSignatureFrom(c) == nil }

// verify checks that a chain leads to a root. It does not look at the time, as the clock here may
// be wrong.
func verify(chain, trusted []*x509.Certificate) error {
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range trusted {
		roots.AddCert(c)
	}
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	leaf := chain[0]
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
		CurrentTime: leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2),
	})
	return err
}

// parseParts parses the parts of a chain. A part may have more than one certificate.
func parseParts(parts [][]byte) (all []*x509.Certificate, err error) {
	for _, part := range parts {
		some, err := parsePEM(part)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if len(all) < 2 || len(all) > maxChain {
		return nil, fmt.Errorf("the chain has %d certificates; want a certificate and its root, and at most %d in all",
			len(all), maxChain)
	}
	return all, nil
}

// parsePEM parses certificates. There is at least one.
func parsePEM(text []byte) (all []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("there is a block %.40q; want CERTIFICATE", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no certificate; want PEM")
	}
	return all, nil
}

func encode(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func (r Request) encodeKey(key crypto.Signer) ([]byte, error) {
	kind, der := "PRIVATE KEY", []byte(nil)
	var err error
	switch private := key.(type) {
	case *ecdsa.PrivateKey:
		if !r.PKCS8 {
			kind = "EC PRIVATE KEY"
			der, err = x509.MarshalECPrivateKey(private)
		}
	case *rsa.PrivateKey:
		if !r.PKCS8 {
			kind, der = "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(private)
		}
	}
	if der == nil && err == nil {
		der, err = x509.MarshalPKCS8PrivateKey(key)
	}
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), nil
}

// union joins roots in PEM. Each stands once, in the order in which they come first.
func union(parts ...[]byte) []byte {
	var all []byte
	seen := map[string]bool{}
	for _, part := range parts {
		certificates, err := parsePEM(part)
		if err != nil {
			continue // it was checked, or is empty
		}
		for _, c := range certificates {
			if !seen[string(c.Raw)] {
				seen[string(c.Raw)] = true
				all = append(all, encode(c)...)
			}
		}
	}
	return all
}

// shortName is the identity in a log line.
func shortName(identity string) string { return strings.TrimPrefix(identity, "spiffe://") }
