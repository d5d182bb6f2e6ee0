package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const trustDomain = "cluster.local"

var (
	start    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	bookshop = Identity{TrustDomain: trustDomain, Namespace: "shop", ServiceAccount: "books"}
)

func keysOf(data map[string][]byte) Keys {
	return Keys{
		Certificate: data[certificateKey], Key: data[privateKey], Chain: data[chainKey], Roots: data[rootsKey],
	}
}

// selfSigned returns an authority with a root of its own.
func selfSigned(t testing.TB, now time.Time) *Authority {
	t.Helper()
	data, err := rotation{}.first(now)
	require.NoError(t, err)
	a, err := New(keysOf(data), now)
	require.NoError(t, err)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// requestFor returns a signing request for a template.
func requestFor(t testing.TB, template *x509.CertificateRequest, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// request returns a signing request that names these URIs.
func request(t testing.TB, uris ...string) []byte {
	t.Helper()
	var template x509.CertificateRequest
	for _, text := range uris {
		uri, err := url.Parse(text)
		require.NoError(t, err)
		template.URIs = append(template.URIs, uri)
	}
	return requestFor(t, &template, newKey(t))
}

// parseChain reads a chain that an authority returned.
func parseChain(t testing.TB, chain []string) (all []*x509.Certificate) {
	t.Helper()
	for _, text := range chain {
		one, err := parseCertificates([]byte(text))
		require.NoError(t, err)
		require.Len(t, one, 1)
		require.Equal(t, encodeCertificate(one[0]), text)
		all = append(all, one[0])
	}
	return all
}

// caller returns whom an authority's certificates prove.
func caller(a *Authority, shown []*x509.Certificate, now time.Time) (Identity, error) {
	id, _, err := verifierOf(a, now).Verify(shown)
	return id, err
}

func verifierOf(a *Authority, now time.Time) *Verifier {
	return &Verifier{
		Roots:   func() (*x509.CertPool, error) { return a.pool, nil },
		Domains: func() Domains { return Domains{Own: trustDomain} },
		Now:     func() time.Time { return now },
	}
}

// verify is what a peer does that trusts some roots.
func verify(chain, roots []*x509.Certificate, now time.Time) error {
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: pool(roots), Intermediates: pool(chain[1:]), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}
