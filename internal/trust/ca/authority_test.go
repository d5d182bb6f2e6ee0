package ca

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLeafNamesTheCallerAndNothingElse(t *testing.T) {
	a := selfSigned(t, start)
	for _, csr := range [][]byte{request(t), request(t, bookshop.URI())} {
		chain, err := a.Sign(csr, Request{Identity: bookshop, TTL: 24 * time.Hour, Now: start})
		require.NoError(t, err)
		all := parseChain(t, chain)
		require.Len(t, all, 2)
		leaf := all[0]
		require.NoError(t, verify(all, all[1:], start))
		require.Equal(t, []*url.URL{{Scheme: "spiffe", Host: trustDomain, Path: "/ns/shop/sa/books"}}, leaf.URIs)
		require.Empty(t, leaf.Subject.Names)
		require.False(t, leaf.IsCA)
		require.Equal(t, x509.KeyUsageDigitalSignature|x509.KeyUsageKeyEncipherment, leaf.KeyUsage)
		require.ElementsMatch(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			leaf.ExtKeyUsage)
		require.Equal(t, start.Add(-clockSkew), leaf.NotBefore)
		require.Equal(t, start.Add(24*time.Hour), leaf.NotAfter)
		for _, e := range leaf.Extensions {
			if e.Id.String() == "2.5.29.17" {
				require.True(t, e.Critical, "names are critical where there is no subject")
			}
		}
		id, err := caller(a, all[:1], start)
		require.NoError(t, err)
		require.Equal(t, bookshop, id)
	}
}

func TestRequestForAnotherIsRefused(t *testing.T) {
	a := selfSigned(t, start)
	key := newKey(t)
	for name, csr := range map[string][]byte{
		"spiffe://cluster.local/ns/shop/sa/admin": request(t, "spiffe://cluster.local/ns/shop/sa/admin"),
		elsewhere.URI():                            request(t, bookshop.URI(), elsewhere.URI()),
		"spiffe://other.local/ns/shop/sa/books":    request(t, "spiffe://other.local/ns/shop/sa/books"),
		"spiffe://cluster.local/ns/shop/sa/books?": request(t, bookshop.URI()+"?"),
		"DNS:bank.example": requestFor(t, &x509.CertificateRequest{
			DNSNames: []string{"bank.example"},
		}, key),
		"IP:10.0.0.1": requestFor(t, &x509.CertificateRequest{
			IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)},
		}, key),
		"email:a@bank.example": requestFor(t, &x509.CertificateRequest{
			EmailAddresses: []string{"a@bank.example"},
		}, key),
	} {
		_, err := a.Sign(csr, Request{Identity: bookshop, TTL: time.Hour, Now: start})
		require.ErrorIs(t, err, ErrIdentity, name)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, bookshop.URI())
	}
}

func TestCallerThatCannotBeNamedIsRefused(t *testing.T) {
	a := selfSigned(t, start)
	for _, id := range []Identity{
		{},
		{TrustDomain: trustDomain, Namespace: "shop"},
		{TrustDomain: trustDomain, Namespace: "shop/sa/admin", ServiceAccount: "books"},
		{TrustDomain: trustDomain, Namespace: "shop", ServiceAccount: "books%2fns"},
		{TrustDomain: "Other.local", Namespace: "shop", ServiceAccount: "books"},
		{TrustDomain: "other.local/ns/x", Namespace: "shop", ServiceAccount: "books"},
	} {
		_, err := a.Sign(request(t), Request{Identity: id, TTL: time.Hour, Now: start})
		require.ErrorIs(t, err, ErrIdentity, "%v", id)
	}
}

func TestOnlySoundKeysAreCertified(t *testing.T) {
	a := selfSigned(t, start)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	require.NoError(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	rsa2048, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for _, c := range []struct {
		key  crypto.Signer
		fail string
	}{{newKey(t), ""}, {p384, ""}, {ed, ""}, {rsa2048, ""}, {p521, "ECDSA P-521"}} {
		_, err := a.Sign(requestFor(t, &x509.CertificateRequest{}, c.key),
			Request{Identity: bookshop, TTL: time.Hour, Now: start})
		if c.fail == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrRequest)
		require.ErrorContains(t, err, c.fail)
	}
	require.ErrorContains(t, checkKey(&rsa.PublicKey{N: p521.X, E: 65537}), "RSA of 5") // a number of about 521 bits
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	a := selfSigned(t, start)
	good := request(t)
	forged := bytes.Replace(good, []byte("\nMI"), []byte("\nMJ"), 1)
	for want, csr := range map[string][]byte{
		"not in PEM":            []byte("hello"),
		"at most 16384":         append(bytes.Clone(good), bytes.Repeat([]byte("\n"), maxRequestBytes)...),
		"followed by":           append(bytes.Clone(good), good...),
		`a block "CERTIFICATE"`: a.Bundle(),
		"cannot be read":        forged,
	} {
		_, err := a.Sign(csr, Request{Identity: bookshop, TTL: time.Hour, Now: start})
		require.ErrorIs(t, err, ErrRequest, want)
		require.ErrorContains(t, err, want)
	}
}

func TestLifetimes(t *testing.T) {
	ttl := TTL{Default: 24 * time.Hour, Max: 90 * 24 * time.Hour}
	for seconds, want := range map[int64]time.Duration{-1: 24 * time.Hour, 0: 24 * time.Hour, 60: time.Minute} {
		got, err := ttl.of(seconds)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, seconds := range []int64{90*24*3600 + 1, 1 << 62} {
		_, err := ttl.of(seconds)
		require.ErrorContains(t, err, "at most 7776000")
	}
	a := selfSigned(t, start)
	late := a.Expires().Add(-time.Hour)
	chain, err := a.Sign(request(t), Request{Identity: bookshop, TTL: 24 * time.Hour, Now: late})
	require.NoError(t, err)
	require.Equal(t, a.Expires(), parseChain(t, chain)[0].NotAfter, "no leaf outlives the authority")
	_, err = a.Sign(request(t), Request{Identity: bookshop, TTL: time.Hour, Now: a.Expires()})
	require.ErrorContains(t, err, "has expired")
}

// plug makes the content of a plugged-in authority: an intermediate below a root.
func plug(t testing.TB, now time.Time, change func(*x509.Certificate)) (data map[string][]byte, top root) {
	t.Helper()
	top, err := newRoot(now)
	require.NoError(t, err)
	key := newKey(t)
	serial, err := newSerial()
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Acme mesh"}, NotBefore: now.Add(-clockSkew),
		NotAfter: now.Add(365 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	if change != nil {
		change(template)
	}
	c, err := certify(template, top, key.Public())
	require.NoError(t, err)
	text, err := root{c, key}.encodeKey()
	require.NoError(t, err)
	return map[string][]byte{
		certificateKey: []byte(encodeCertificate(c)), privateKey: text,
		chainKey: []byte(encodeCertificate(c)), rootsKey: []byte(encodeCertificate(top.certificate)),
	}, top
}

func TestPluggedInAuthoritySendsItsIntermediates(t *testing.T) {
	data, top := plug(t, start, nil)
	other, err := newRoot(start)
	require.NoError(t, err)
	data[rootsKey] = append(data[rootsKey], encodeCertificate(other.certificate)...)
	for _, chainText := range [][]byte{data[chainKey], nil, append(data[chainKey], data[rootsKey]...)} {
		k := keysOf(data)
		k.Chain = chainText
		a, err := New(k, start)
		require.NoError(t, err)
		chain, err := a.Sign(request(t), Request{Identity: bookshop, TTL: 1000 * 24 * time.Hour, Now: start})
		require.NoError(t, err)
		all := parseChain(t, chain)
		require.Len(t, all, 4)
		require.Equal(t, "Acme mesh", all[1].Subject.CommonName)
		require.Equal(t, other.certificate.Raw, all[2].Raw)
		require.Equal(t, top.certificate.Raw, all[3].Raw, "the root of the leaf is last: Istio's agent takes that one")
		require.NoError(t, verify(all[:2], all[3:], start))
		require.Equal(t, all[1].NotAfter, all[0].NotAfter)
		require.True(t, strings.HasPrefix(string(a.Bundle()), chain[3]))
	}
}

func TestInvalidAuthoritiesAreNotTaken(t *testing.T) {
	other, _ := plug(t, start, nil)
	for want, change := range map[string]func(map[string][]byte){
		"the certificate: there is no certificate": func(d map[string][]byte) { delete(d, certificateKey) },
		"the key: there is no key":                 func(d map[string][]byte) { delete(d, privateKey) },
		"the roots: there is no certificate":       func(d map[string][]byte) { delete(d, rootsKey) },
		"key is not that of the certificate":       func(d map[string][]byte) { d[privateKey] = other[privateKey] },
		"does not lead":                            func(d map[string][]byte) { d[rootsKey] = other[rootsKey] },
		"a block \"PRIVATE KEY\"":                  func(d map[string][]byte) { d[chainKey] = d[privateKey] },
	} {
		data, _ := plug(t, start, nil)
		change(data)
		_, err := New(keysOf(data), start)
		require.ErrorContains(t, err, want)
	}
	for want, change := range map[string]func(*x509.Certificate){
		"CA:TRUE":        func(c *x509.Certificate) { c.IsCA = false },
		"keyCertSign":    func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature },
		"has expired at": func(c *x509.Certificate) { c.NotAfter = start.Add(-time.Minute) },
		"does not lead":  func(c *x509.Certificate) { c.NotBefore = start.Add(time.Hour) },
	} {
		data, _ := plug(t, start, change)
		_, err := New(keysOf(data), start)
		require.ErrorContains(t, err, want)
	}
}

func TestRequestMayNameTheCallerInAnAlias(t *testing.T) {
	a := selfSigned(t, start)
	r := Request{Identity: bookshop, Aliases: []string{"old.local"}, TTL: time.Hour, Now: start}
	chain, err := a.Sign(request(t, "spiffe://old.local/ns/shop/sa/books"), r)
	require.NoError(t, err)
	require.Equal(t, bookshop.URI(), parseChain(t, chain)[0].URIs[0].String(), "the present trust domain is certified")
	for _, foreign := range []string{"spiffe://old.local/ns/shop/sa/admin", "spiffe://older.local/ns/shop/sa/books"} {
		_, err = a.Sign(request(t, foreign), r)
		require.ErrorIs(t, err, ErrIdentity)
		require.ErrorContains(t, err, foreign)
	}
}

func TestForeignCertificateProvesNothing(t *testing.T) {
	a, other := selfSigned(t, start), selfSigned(t, start)
	chain, err := other.Sign(request(t), Request{Identity: bookshop, TTL: time.Hour, Now: start})
	require.NoError(t, err)
	_, err = caller(a, parseChain(t, chain), start)
	require.ErrorContains(t, err, "does not verify")
	chain, err = a.Sign(request(t), Request{Identity: bookshop, TTL: time.Hour, Now: start})
	require.NoError(t, err)
	_, err = caller(a, parseChain(t, chain), start.Add(time.Hour+time.Second))
	require.ErrorContains(t, err, "does not verify")
	pair, err := a.serve([]string{"istiod.istio-system.svc"}, start)
	require.NoError(t, err)
	_, err = caller(a, []*x509.Certificate{pair.Leaf}, start)
	require.Error(t, err, "the certificate of a server is no workload's")
}

// FuzzSign holds that no request, however it is made, gets a certificate with another identity than
// the caller's.
func FuzzSign(f *testing.F) {
	a := selfSigned(f, start)
	f.Add(request(f), uint8(0))
	f.Add(request(f, bookshop.URI()), uint8(1))
	f.Add(request(f, "spiffe://cluster.local/ns/bank/sa/admin"), uint8(2))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"), uint8(3))
	f.Fuzz(func(t *testing.T, csr []byte, who uint8) {
		id := bookshop
		id.ServiceAccount += strings.Repeat("s", int(who)%8)
		chain, err := a.Sign(csr, Request{Identity: id, TTL: time.Hour, Now: start})
		if err != nil {
			return
		}
		all := parseChain(t, chain)
		require.NoError(t, verify(all, all[1:], start))
		leaf := all[0]
		require.Len(t, leaf.URIs, 1)
		require.Equal(t, id.URI(), leaf.URIs[0].String())
		require.Empty(t, leaf.DNSNames)
		require.Empty(t, leaf.IPAddresses)
		require.Empty(t, leaf.EmailAddresses)
		require.False(t, leaf.IsCA)
		require.Empty(t, leaf.Subject.Names)
	})
}

func BenchmarkSign(b *testing.B) {
	a := selfSigned(b, start)
	csr := request(b, bookshop.URI())
	for b.Loop() {
		if _, err := a.Sign(csr, Request{Identity: bookshop, TTL: time.Hour, Now: start}); err != nil {
			b.Fatal(err)
		}
	}
}
