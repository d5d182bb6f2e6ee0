package ca

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// listOf returns a list of certificates that an authority has revoked, in PEM. It ends after a
// lifetime.
func listOf(t testing.TB, keys parsedKeys, life time.Duration, revoked ...*x509.Certificate) string {
	t.Helper()
	list := &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: start.Add(-time.Hour), NextUpdate: start.Add(life),
	}
	for _, c := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: start})
	}
	return signedList(t, keys, list)
}

func signedList(t testing.TB, keys parsedKeys, list *x509.RevocationList) string {
	t.Helper()
	der, err := x509.CreateRevocationList(rand.Reader, list, keys.certificate, keys.signer)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}))
}

// workload returns the chain of a certificate that an authority has signed.
func workload(t testing.TB, a *Authority) []*x509.Certificate {
	t.Helper()
	chain, err := a.Sign(request(t, bookshop.URI()), Request{Identity: bookshop, TTL: time.Hour, Now: start})
	require.NoError(t, err)
	return parseChain(t, chain)
}

// plugged returns an authority that signs lists, and the one above it.
func plugged(t testing.TB) (a *Authority, above parsedKeys) {
	t.Helper()
	data, top := plug(t, start, func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCRLSign })
	a, err := New(keysOf(data), start)
	require.NoError(t, err)
	return a, parsedKeys{certificate: top.certificate, signer: top.key}
}

// TestRevokedCertificatesProveNobody looks at what a list revokes: a workload's certificate, and an
// authority's.
func TestRevokedCertificatesProveNobody(t *testing.T) {
	a, above := plugged(t)
	good, bad := workload(t, a), workload(t, a)
	shown := func(chain []*x509.Certificate, lists string) error {
		read, err := a.readRevocations([]byte(lists), start)
		require.NoError(t, err)
		holder := NewHolder()
		holder.Set(a.withRevocations(read))
		v := &Verifier{
			Roots: holder.Roots, Revoked: holder.Revoked,
			Domains: func() Domains { return Domains{Own: trustDomain} }, Now: func() time.Time { return start },
		}
		_, _, err = v.Verify(chain)
		return err
	}
	none := listOf(t, above, time.Hour)
	require.NoError(t, shown(bad, none+listOf(t, a.keys, time.Hour)))
	one := none + listOf(t, a.keys, time.Hour, bad[0])
	require.ErrorContains(t, shown(bad, one), "the certificate is revoked")
	require.NoError(t, shown(good, one))
	all := listOf(t, above, time.Hour, a.keys.certificate) + listOf(t, a.keys, time.Hour)
	require.ErrorContains(t, shown(good, all), "the certificate is revoked")
	sameNumber := listOf(t, above, time.Hour, bad[0]) + listOf(t, a.keys, time.Hour)
	require.NoError(t, shown(bad, sameNumber), "the number is that of another authority's certificate")
}

// TestListsOfRevokedCertificates looks at lists that proxies would refuse everything with.
func TestListsOfRevokedCertificates(t *testing.T) {
	a, above := plugged(t)
	other := selfSigned(t, start)
	own, roots := listOf(t, a.keys, time.Hour), listOf(t, above, 2*time.Hour)
	others := listOf(t, other.keys, time.Hour)
	changes := signedList(t, a.keys, &x509.RevocationList{
		Number: big.NewInt(2), ThisUpdate: start, NextUpdate: start.Add(time.Hour),
		ExtraExtensions: []pkix.Extension{{Id: deltaList, Critical: true, Value: []byte{2, 1, 1}}},
	})
	for name, c := range map[string]struct{ text, fault string }{
		"one of each authority":         {own + roots, ""},
		"of another authority":          {own + roots + others, "list 3 is that of another authority"},
		"one authority has none":        {own, "there is no list of " + above.certificate.Subject.String()},
		"has ended":                     {own + listOf(t, above, -time.Minute), "has ended at 2025-12-31T23:59:00Z"},
		"a certificate among the lists": {own + string(a.Bundle()), `a block "CERTIFICATE" among the lists`},
		"the changes of another alone":  {own + roots + changes, "list 3 has the changes of another alone"},
		"no list":                       {"lists", "there is no list in PEM"},
		"garbage":                       {"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n", "list 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := a.readRevocations([]byte(c.text), start)
			if c.fault != "" {
				require.ErrorContains(t, err, c.fault)
				require.Zero(t, read)
				return
			}
			require.NoError(t, err)
			require.Equal(t, start.Add(time.Hour), read.ends)
			require.Equal(t, c.text, string(read.text))
		})
	}
}

// TestUnknownRevocationsProveNobody has lists that cannot be used, and none from before.
func TestUnknownRevocationsProveNobody(t *testing.T) {
	a := selfSigned(t, start)
	holder := NewHolder()
	holder.Set(a.withRevocations(revocations{refused: true}))
	_, err := holder.Roots()
	require.ErrorIs(t, err, errNoLists)
	_, known := a.withRevocations(revocations{refused: true}).Revoked()
	require.False(t, known)
}

// TestListsOfASecret follows a Secret: lists, others that cannot be used, and none.
func TestListsOfASecret(t *testing.T) {
	data, err := rotation{}.first(start)
	require.NoError(t, err)
	authority, err := New(keysOf(data), start)
	require.NoError(t, err)
	s, log := storeWith(t, map[string]map[string][]byte{Plugged: data})
	lists := func(text string) *Authority {
		next := maps.Clone(data)
		next[RevokedKey] = []byte(text)
		s.secrets[Plugged] = next
		s.load()
		a, _, err := s.holder.Get()
		require.NoError(t, err)
		return a
	}
	refused := lists("lists")
	_, known := refused.Revoked()
	require.False(t, known, "there are none from before")
	require.Contains(t, log.String(), "proxies keep those that they have")
	require.Contains(t, log.String(), RevokedKey)
	good := listOf(t, authority.keys, time.Hour)
	text, known := lists(good).Revoked()
	require.True(t, known)
	require.Equal(t, good, string(text))
	log.Reset()
	text, known = lists(listOf(t, selfSigned(t, start).keys, time.Hour)).Revoked()
	require.True(t, known)
	require.Equal(t, good, string(text))
	require.Contains(t, log.String(), "the last ones stay in use")
	require.Contains(t, log.String(), "list 1 is that of another authority")
	text, known = lists("").Revoked()
	require.True(t, known)
	require.Empty(t, text)
	require.InDelta(t, 2, valueOf(t, s.o.Metrics.CA.Rejected.WithLabelValues(Plugged)), 0)

	s.o.IgnoreRevoked = true
	text, known = lists(good).Revoked()
	require.True(t, known)
	require.Empty(t, text, "PILOT_ENABLE_CA_CRL=false")
}

// TestEndOfListsIsTold looks at lists before and after their end.
func TestEndOfListsIsTold(t *testing.T) {
	authority := selfSigned(t, start)
	s, log := storeWith(t, nil)
	read, err := authority.readRevocations([]byte(listOf(t, authority.keys, time.Hour)), start)
	require.NoError(t, err)
	s.holder.Set(authority.withRevocations(read))
	require.Equal(t, time.Hour, s.checkExpiry())
	require.Contains(t, log.String(), "end soon")
	s.o.Now = func() time.Time { return start.Add(2 * time.Hour) }
	require.Equal(t, checkEvery, s.checkExpiry())
	require.Contains(t, log.String(), "the lists of revoked certificates have ended")
}
