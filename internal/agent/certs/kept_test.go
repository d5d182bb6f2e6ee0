package certs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

func inMemory(string) bool { return true }

// A proxy that starts again while the CA is away has the certificate of its last start.
func TestAStartWithoutTheCAHasTheLastCertificate(t *testing.T) {
	c := startCA(t, newRoot(t, "mesh"))
	file := filepath.Join(t.TempDir(), "last-certificate.pem")
	o := Options{CA: c.connect(t), Kept: file, InMemory: inMemory, RootFile: c.roots, Request: Request{TTL: time.Hour}}
	a := start(t, o)
	first, key := a.ask("default").pair()
	a.awaitLog("there is a new certificate", 1)
	require.Eventually(t, func() bool { return exists(file) }, patience, time.Millisecond)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	c.holder.Set(nil)
	o.CA = c.connect(t)
	b := start(t, o)
	again, sameKey := b.ask("default").pair()
	require.Equal(t, first[0].SerialNumber, again[0].SerialNumber)
	require.Equal(t, key, sameKey)
	require.Equal(t, a.ask("ROOTCA").roots(), b.ask("ROOTCA").roots())
	require.NotContains(t, b.log.String(), "PRIVATE")
}

// What may not be used any more is removed.
func TestOnlyAGoodCertificateIsTakenFromTheLastStart(t *testing.T) {
	mesh := newRoot(t, "mesh")
	c := startCA(t, mesh)
	got, err := Request{Identity: identity, TTL: time.Hour}.issue(t.Context(), c.connect(t))
	require.NoError(t, err)
	cart := "spiffe://cluster.local/ns/shop/sa/cart"
	foreign := keptOf(t, mesh, cart)
	good := string(got.key) + string(got.chain) + string(got.roots)
	otherRoots := filepath.Join(t.TempDir(), "roots.pem")
	require.NoError(t, os.WriteFile(otherRoots, newRoot(t, "other").Roots, 0o600))
	other, err := Request{Identity: identity, TTL: time.Hour}.issue(t.Context(), c.connect(t))
	require.NoError(t, err)
	clock := newTestClock()
	clock.move(2 * time.Hour)
	for name, tt := range map[string]struct {
		text    string
		change  func(*Options)
		message string
	}{
		"good":            {good, nil, ""},
		"of another":      {foreign, nil, "want spiffe"},
		"ended":           {good, func(o *Options) { o.Clock = clock.clock() }, "it has ended"},
		"of another root": {good, func(o *Options) { o.RootFile = otherRoots }, "its root is not in"},
		"another key":     {string(other.key) + string(got.chain) + string(got.roots), nil, "for another key"},
		"no key":          {string(got.chain) + string(got.roots), nil, "want a private key"},
		"cut":             {good[:len(good)-40], nil, "want a certificate and its root"},
		"empty":           {"", nil, "there is no key"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "last-certificate.pem")
			require.NoError(t, os.WriteFile(file, []byte(tt.text), 0o600))
			o := Options{Kept: file, RootFile: c.roots, Request: Request{TTL: time.Hour}}
			if tt.change != nil {
				tt.change(&o)
			}
			a := start(t, o)
			m := a.manager
			if tt.message == "" {
				require.Equal(t, got.pair.Leaf, m.Certificate().Leaf)
				require.True(t, exists(file))
				return
			}
			require.Nil(t, m.Certificate())
			require.Contains(t, a.log.String(), tt.message)
			require.False(t, exists(file))
		})
	}
}

// A key is not written to a disk.
func TestNothingIsKeptOutsideOfMemory(t *testing.T) {
	c := startCA(t, newRoot(t, "mesh"))
	file := filepath.Join(t.TempDir(), "last-certificate.pem")
	a := start(t, Options{
		CA: c.connect(t), Kept: file, InMemory: func(string) bool { return false }, Request: Request{TTL: time.Hour},
	})
	a.ask("default").pair()
	a.awaitLog("want an emptyDir with medium Memory", 1)
	require.False(t, exists(file))
	require.True(t, InMemory("/dev/shm"))
	require.False(t, InMemory("/proc"))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// keptOf is a kept certificate of an identity.
func keptOf(t *testing.T, keys ca.Keys, identity string) string {
	r := Request{Identity: identity}
	key, err := r.newKey()
	require.NoError(t, err)
	csr, err := r.csr(key)
	require.NoError(t, err)
	id, err := ca.ParseIdentity(identity)
	require.NoError(t, err)
	chain, err := authority(t, keys).Sign(csr, ca.Request{Identity: id, TTL: time.Hour, Now: time.Now()})
	require.NoError(t, err)
	var parts [][]byte
	for _, c := range chain {
		parts = append(parts, []byte(c))
	}
	got, err := r.accept(parts, key)
	require.NoError(t, err)
	return string(got.key) + string(got.chain) + string(got.roots)
}
