package ca

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Keys are the key of an authority and its certificates, all in PEM: the content of a Secret.
type Keys struct {
	Certificate, Key []byte
	// Chain leads from the certificate to a root. It may begin with the certificate and end with
	// the root. It is empty for a self-signed certificate.
	Chain []byte
	// Roots are what clients trust.
	Roots []byte
}

// parsedKeys are valid Keys.
type parsedKeys struct {
	certificate   *x509.Certificate
	signer        crypto.Signer
	intermediates []*x509.Certificate // sent after a leaf
	roots         []*x509.Certificate // that of the certificate is last
	expires       time.Time           // when the first certificate up to that root does
}

// parse reads Keys and checks that a client which trusts the roots verifies what they sign.
func (k Keys) parse(now time.Time) (p parsedKeys, err error) {
	certificates, err := parseCertificates(k.Certificate)
	if err != nil {
		return p, fmt.Errorf("the certificate: %w", err)
	}
	p.certificate = certificates[0]
	if p.signer, err = parseKey(k.Key); err != nil {
		return p, fmt.Errorf("the key: %w", err)
	}
	if err := checkAuthority(p.certificate, p.signer, now); err != nil {
		return p, err
	}
	if p.roots, err = parseCertificates(k.Roots); err != nil {
		return p, fmt.Errorf("the roots: %w", err)
	}
	var chain []*x509.Certificate
	if len(bytes.TrimSpace(k.Chain)) > 0 {
		if chain, err = parseCertificates(k.Chain); err != nil {
			return p, fmt.Errorf("the chain: %w", err)
		}
	}
	return p, p.connect(chain, now)
}

// checkAuthority checks that a certificate may sign others now, and has this key.
func checkAuthority(c *x509.Certificate, key crypto.Signer, now time.Time) error {
	switch {
	case !hasKey(c, key.Public()):
		return errors.New("the key is not that of the certificate")
	case !c.IsCA || !c.BasicConstraintsValid:
		return errors.New("the certificate is not that of an authority; want basicConstraints CA:TRUE")
	case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
		return errors.New("the certificate may not sign others; want keyUsage keyCertSign")
	case now.After(c.NotAfter):
		return fmt.Errorf("the certificate has expired at %s", c.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// connect finds the way to a root, moves that root to the end, and sets the intermediates.
func (p *parsedKeys) connect(chain []*x509.Certificate, now time.Time) error {
	if !contains(p.roots, p.certificate) && !contains(chain, p.certificate) {
		p.intermediates = append(p.intermediates, p.certificate)
	}
	for _, c := range chain {
		if !contains(p.roots, c) && !contains(p.intermediates, c) {
			p.intermediates = append(p.intermediates, c)
		}
	}
	shortest, err := shortestWay(p.certificate, p.intermediates, p.roots, now)
	if err != nil {
		return fmt.Errorf("the chain does not lead from the certificate to one of the roots: %w", err)
	}
	root := shortest[len(shortest)-1]
	p.expires = root.NotAfter
	for _, c := range shortest {
		if c.NotAfter.Before(p.expires) {
			p.expires = c.NotAfter
		}
	}
	p.roots = withLast(p.roots, root)
	return nil
}

// shortestWay returns the fewest certificates that lead from one to a root, both included.
func shortestWay(from *x509.Certificate, intermediates, roots []*x509.Certificate, now time.Time) (
	[]*x509.Certificate, error,
) {
	ways, err := from.Verify(x509.VerifyOptions{
		Roots: pool(roots), Intermediates: pool(intermediates), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return nil, err
	}
	return slices.MinFunc(ways, func(a, b []*x509.Certificate) int { return cmp.Compare(len(a), len(b)) }), nil
}

// withLast returns each root once, with one of them at the end.
func withLast(roots []*x509.Certificate, last *x509.Certificate) (ordered []*x509.Certificate) {
	for _, c := range roots {
		if !c.Equal(last) && !contains(ordered, c) {
			ordered = append(ordered, c)
		}
	}
	return append(ordered, last)
}

// hasKey reports whether a certificate is for a key.
func hasKey(c *x509.Certificate, key crypto.PublicKey) bool {
	public, ok := c.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(key)
}

func contains(all []*x509.Certificate, c *x509.Certificate) bool {
	for _, other := range all {
		if other.Equal(c) {
			return true
		}
	}
	return false
}

func pool(all []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range all {
		p.AddCert(c)
	}
	return p
}

// parseCertificates reads one or more certificates.
func parseCertificates(text []byte) (all []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("a block %.40q among the certificates", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no certificate in PEM")
	}
	return all, nil
}

// parseKey reads a private key in any of the usual forms.
func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("there is no key in PEM")
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("it is none of EC, PKCS#1 and PKCS#8") // the parser's error may quote it
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("it cannot sign")
	}
	return signer, nil
}

func encodeCertificate(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

func encodeCertificates(all []*x509.Certificate) (texts []string) {
	for _, c := range all {
		texts = append(texts, encodeCertificate(c))
	}
	return texts
}
