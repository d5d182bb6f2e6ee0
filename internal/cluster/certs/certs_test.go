package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var names = []string{"istiod.istio-system.svc", "lateen.istio-system.svc"}

// trusts tells whether a client with these roots takes the certificate for a name at a time.
func trusts(t *testing.T, roots []byte, served map[string][]byte, name string, now time.Time) bool {
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(roots))
	pair, err := tls.X509KeyPair(served[certificateKey], served[privateKey])
	require.NoError(t, err)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: now})
	return err == nil
}

func TestCertificatesAreRenewedBeforeTheyExpire(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first, err := renew(nil, names, now)
	require.NoError(t, err)
	for _, name := range names {
		require.True(t, trusts(t, first[bundleKey], first, name, now))
		require.True(t, trusts(t, first[bundleKey], first, name, now.Add(-skew/2)), "a clock may be late")
	}
	require.False(t, trusts(t, first[bundleKey], first, "other.istio-system.svc", now))

	for _, later := range []time.Duration{0, leafLives - leafRenewed - time.Minute} {
		same, err := renew(first, names, now.Add(later))
		require.NoError(t, err)
		require.Equal(t, first, same)
	}

	due := now.Add(leafLives - leafRenewed + time.Minute)
	second, err := renew(first, names, due)
	require.NoError(t, err)
	require.Equal(t, first[bundleKey], second[bundleKey], "the root stays")
	require.NotEqual(t, first[certificateKey], second[certificateKey])
	require.True(t, trusts(t, first[bundleKey], second, names[0], due))

	more, err := renew(second, append(names, "istiod-canary.istio-system.svc"), due)
	require.NoError(t, err)
	require.True(t, trusts(t, first[bundleKey], more, "istiod-canary.istio-system.svc", due))

	late := now.Add(rootLives - rootRenewed + time.Minute)
	third, err := renew(first, names, late)
	require.NoError(t, err)
	require.True(t, trusts(t, third[bundleKey], third, names[0], late))
	require.True(t, bytes.Contains(third[bundleKey], first[bundleKey]),
		"replicas may still serve what the old root signed")
}

func TestUnusableSecretIsReplaced(t *testing.T) {
	now := time.Now()
	good, err := renew(nil, names, now)
	require.NoError(t, err)
	other, err := renew(nil, names, now)
	require.NoError(t, err)
	for what, spoil := range map[string]func(map[string][]byte){
		"garbage certificate":   func(d map[string][]byte) { d[certificateKey] = []byte("x") },
		"key of another":        func(d map[string][]byte) { d[privateKey] = other[privateKey] },
		"root of another":       func(d map[string][]byte) { d[bundleKey] = other[bundleKey] },
		"no key of the root":    func(d map[string][]byte) { delete(d, rootKey) },
		"garbage key of a root": func(d map[string][]byte) { d[rootKey] = good[certificateKey] },
		"garbage root": func(d map[string][]byte) {
			d[bundleKey] = []byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----")
		},
		"certificate of another": func(d map[string][]byte) {
			d[certificateKey], d[privateKey] = other[certificateKey], other[privateKey]
		},
	} {
		bad := map[string][]byte{}
		for k, v := range good {
			bad[k] = v
		}
		spoil(bad)
		now := now
		mended, err := renew(bad, names, now)
		require.NoError(t, err, what)
		require.True(t, trusts(t, mended[bundleKey], mended, names[0], now), what)
	}
}

func TestTheLastGoodCertificateStaysInForce(t *testing.T) {
	h := NewHolder()
	require.Error(t, h.Ready())
	_, changed := h.Bundle()
	data, err := renew(nil, names, time.Now())
	require.NoError(t, err)
	require.NoError(t, h.set(data[certificateKey], data[privateKey], data[bundleKey]))
	<-changed
	require.NoError(t, h.Ready())
	expires := h.Expires()
	require.Error(t, h.set([]byte("x"), data[privateKey], nil))
	require.Error(t, h.set(data[certificateKey], data[privateKey], []byte("x")))
	require.Equal(t, expires, h.Expires())
	bundle, _ := h.Bundle()
	require.Equal(t, data[bundleKey], bundle)
}

func TestFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	f := Files{Certificate: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key"), CA: filepath.Join(dir, "ca")}
	h := NewHolder()
	require.ErrorContains(t, f.Load(h), "crt")
	write := func(data map[string][]byte) {
		require.NoError(t, os.WriteFile(f.Certificate, data[certificateKey], 0o600))
		require.NoError(t, os.WriteFile(f.Key, data[privateKey], 0o600))
		require.NoError(t, os.WriteFile(f.CA, data[bundleKey], 0o600))
	}
	first, err := renew(nil, names, time.Now())
	require.NoError(t, err)
	write(first)
	last, err := f.reload(h, [3][]byte{})
	require.NoError(t, err)
	_, changed := h.Bundle()
	last, err = f.reload(h, last)
	require.NoError(t, err)
	select {
	case <-changed:
		t.Fatal("nothing has changed")
	default:
	}
	require.NoError(t, os.WriteFile(f.Key, []byte("half of it"), 0o600))
	last, err = f.reload(h, last)
	require.ErrorContains(t, err, f.Certificate)
	second, err := renew(nil, names, time.Now())
	require.NoError(t, err)
	write(second)
	_, err = f.reload(h, last)
	require.NoError(t, err)
	<-changed
	bundle, _ := h.Bundle()
	require.Equal(t, second[bundleKey], bundle)
}
