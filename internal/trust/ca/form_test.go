package ca

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"maps"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// certManagers returns what cert-manager writes for an authority below a root, and the root.
func certManagers(t *testing.T, now time.Time) (data map[string][]byte, root *x509.Certificate) {
	t.Helper()
	top := selfSigned(t, now)
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, top.keys.certificate, key.Public(), top.keys.signer)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		"ca.crt":  top.Bundle(),
	}, top.keys.certificate
}

// storeWith is a Store that has seen these Secrets.
func storeWith(t *testing.T, secrets map[string]map[string][]byte) (s *Store, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	s = NewStore(NewHolder(), StoreOptions{
		Namespace: "istio-system", Metrics: newMetrics(start), Log: slog.New(slog.NewTextHandler(log, nil)),
		Now: func() time.Time { return start },
	})
	for name, data := range secrets {
		s.saw(name, &corev1.Secret{Data: data})
	}
	s.load()
	return s, log
}

func TestSecretsOfCertManagerAreAnAuthority(t *testing.T) {
	data, root := certManagers(t, start)
	for _, name := range []string{Plugged, SelfSigned} {
		s, log := storeWith(t, map[string]map[string][]byte{name: data})
		a, _, err := s.holder.Get()
		require.NoError(t, err, "%s: %s", name, log)
		require.Contains(t, log.String(), "form=kubernetes.io/tls")
		chain, err := a.Sign(request(t), Request{Identity: bookshop, TTL: time.Hour, Now: start})
		require.NoError(t, err)
		parsed := parseChain(t, chain)
		require.Len(t, parsed, 3, "the leaf, what has signed it, the root")
		require.NoError(t, verify(parsed, []*x509.Certificate{root}, start))
	}
}

// As for istiod, tls.crt counts where a Secret has both forms.
func TestOfBothFormsThatOfKubernetesCounts(t *testing.T) {
	data, root := certManagers(t, start)
	other, err := rotation{}.first(start)
	require.NoError(t, err)
	maps.Copy(data, other)
	s, log := storeWith(t, map[string]map[string][]byte{Plugged: data})
	a, _, err := s.holder.Get()
	require.NoError(t, err, log)
	require.True(t, a.keys.roots[0].Equal(root))
	require.Contains(t, log.String(), "has both forms")
}

func TestWhatAPlugInLacksIsNamed(t *testing.T) {
	whole, _ := certManagers(t, start)
	istios, err := rotation{}.first(start)
	require.NoError(t, err)
	for _, c := range []struct {
		of    map[string][]byte
		lacks []string
		want  string
	}{
		{whole, []string{"ca.crt"}, "it has the form kubernetes.io/tls, and ca.crt is missing or empty"},
		{whole, []string{"ca.crt", "tls.key"}, "and ca.crt, tls.key is missing or empty"},
		{istios, []string{"root-cert.pem"}, "it has the form Istio, and root-cert.pem is missing or empty"},
		{istios, []string{"ca-key.pem"}, "and ca-key.pem is missing or empty"},
		{whole, []string{"tls.crt"}, "it has neither ca-cert.pem nor tls.crt; want ca-cert.pem, ca-key.pem, " +
			"cert-chain.pem and root-cert.pem, or, in the form of the type kubernetes.io/tls, tls.crt, tls.key " +
			"and ca.crt"},
	} {
		data := maps.Clone(c.of)
		for _, key := range c.lacks {
			delete(data, key)
		}
		s, log := storeWith(t, map[string]map[string][]byte{Plugged: data})
		_, _, err := s.holder.Get()
		require.ErrorIs(t, err, ErrNotReady)
		require.Contains(t, log.String(), c.want)
		require.InDelta(t, 1, valueOf(t, s.o.Metrics.CA.Rejected.WithLabelValues(Plugged)), 0)
	}
}
