package ca

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"sync/atomic"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// ExternalServing is the certificate of a server, from a signer of Kubernetes, so that clients
// verify it by the roots of the mesh. Each replica has its own, in memory.
type ExternalServing struct {
	registration *Registration
	signer       string
	names        []string // DNS names
	pair         atomic.Pointer[tls.Certificate]
}

// NewExternalServing returns a server's certificate for some DNS names, which Run asks for.
func NewExternalServing(r *Registration, signer string, names []string) *ExternalServing {
	return &ExternalServing{registration: r, signer: signer, names: names}
}

// TLS returns the configuration of a server with this certificate.
func (s *ExternalServing) TLS() *tls.Config { return serverTLS(s.certificate) }

func (s *ExternalServing) certificate() (*tls.Certificate, error) {
	pair := s.pair.Load()
	if pair == nil {
		return nil, errors.New("there is no serving certificate of the signer " + s.signer + " yet")
	}
	return pair, nil
}

// Ready returns an error as long as there is no certificate.
func (s *ExternalServing) Ready() error {
	_, err := s.certificate()
	return err
}

// Run asks for a certificate, and renews it after half of its life, until ctx ends.
func (s *ExternalServing) Run(ctx context.Context) {
	for ctx.Err() == nil {
		again := retryDelay
		pair, err := s.issue(ctx)
		switch {
		case err == nil:
			s.pair.Store(pair)
			again = max(pair.Leaf.NotAfter.Sub(s.registration.o.Now())/2, retryDelay)
		case ctx.Err() == nil:
			s.registration.o.Log.Error("there is no new serving certificate", "signer", s.signer, "error", err)
		}
		wait(ctx, nil, again)
	}
}

func (s *ExternalServing) issue(ctx context.Context) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: s.names}, key)
	if err != nil {
		return nil, err
	}
	chain, err := s.registration.sign(ctx, submission{
		csr:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		signer: s.signer,
		usages: []certificatesv1.KeyUsage{
			certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth,
		},
		ttl: servingLives,
	}, func(leaf *x509.Certificate) error {
		for _, name := range s.names {
			if !slices.Contains(leaf.DNSNames, name) {
				return errors.New("it is not for " + name)
			}
		}
		return sameKey(leaf, key.Public())
	})
	if err != nil {
		return nil, err
	}
	pair := &tls.Certificate{PrivateKey: key}
	for _, text := range chain {
		block, _ := pem.Decode([]byte(text))
		pair.Certificate = append(pair.Certificate, block.Bytes)
	}
	pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0])
	return pair, err
}
