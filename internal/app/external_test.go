package app

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

// The roots of a signer are those of the file and of the mesh configuration; the cluster's own if
// there are none. The bundle has all of them. What is invalid is logged once, and changes nothing.
func TestRootsOfSignersElsewhere(t *testing.T) {
	pem := func(name string) string { return certs.NewAuthority(t, name).PEM }
	cluster, file, team, all := pem("cluster"), pem("file"), pem("team"), pem("all")
	var log bytes.Buffer
	e := &externalAuthority{
		o:      ExternalCA{Signer: "example.com/mesh", RootFile: filepath.Join(t.TempDir(), "root-cert.pem")},
		holder: ca.NewHolder(), cluster: []byte(cluster), log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	roots := func(parts ...string) string { return string(ca.JoinRoots([]byte(strings.Join(parts, "")))) }
	bundle := func() string {
		authority, _, err := e.holder.Get()
		require.NoError(t, err)
		return string(authority.Bundle())
	}
	e.refresh(model.MeshConfig{})
	require.Equal(t, roots(cluster), string(e.rootsOf("example.com/mesh")))
	require.Equal(t, roots(cluster), bundle())

	require.NoError(t, os.WriteFile(e.o.RootFile, []byte(file), 0o600))
	mesh := model.MeshConfig{CACertificates: []model.CACertificate{
		{PEM: team, Signers: []string{"example.com/team"}}, {PEM: all},
	}}
	e.refresh(mesh)
	require.Equal(t, roots(file, all), string(e.rootsOf("example.com/mesh")))
	require.Equal(t, roots(file, team, all), string(e.rootsOf("example.com/team")))
	for _, one := range []string{file, team, all} {
		require.Contains(t, bundle(), strings.TrimSpace(one))
	}
	require.NotContains(t, bundle(), strings.TrimSpace(cluster))

	require.NoError(t, os.WriteFile(e.o.RootFile, []byte("garbage"), 0o600))
	for range 3 {
		e.refresh(mesh)
	}
	require.Equal(t, roots(file, all), string(e.rootsOf("example.com/mesh")))
	require.Equal(t, 1, strings.Count(log.String(), "the last valid roots stay"))
}

func TestSignersOfADomainNeedKnownRoots(t *testing.T) {
	var log bytes.Buffer
	e := &externalAuthority{
		o: ExternalCA{Domain: "example.com"}, holder: ca.NewHolder(),
		cluster: []byte(certs.NewAuthority(t, "cluster").PEM), log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	e.refresh(model.MeshConfig{})
	require.Empty(t, e.rootsOf("example.com/team"))
	_, _, err := e.holder.Get()
	require.ErrorIs(t, err, ca.ErrNotReady)
	require.Contains(t, log.String(), "want them in")
}

// A replica whose operator has a certificate for it asks no signer for one, and does not wait.
func TestOwnServingCertificateNeedsNoSigner(t *testing.T) {
	o := ClusterOptions{
		Config: &rest.Config{Host: "http://127.0.0.1:1"}, External: &ExternalCA{Signer: "example.com/mesh"},
		Log: slog.New(slog.DiscardHandler),
	}
	for certificate, waits := range map[string]bool{"": true, "tls.crt": false} {
		o.Files.Certificate = certificate
		a, err := newAuthority(o)
		require.NoError(t, err)
		trusted, err := ca.Trusting([]byte(certs.NewAuthority(t, "root").PEM))
		require.NoError(t, err)
		a.holder.Set(trusted)
		require.Equal(t, waits, a.ready() != nil, certificate)
	}
}
