package certs

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	testcerts "github.com/lateen-mesh/lateen/internal/testkit/certs"
)

// greet connects a client with certificates to a server with a check. It returns the server's
// error.
func greet(t *testing.T, check *ClientCheck, certificates ...tls.Certificate) error {
	t.Helper()
	h := NewHolder()
	made, err := renew(nil, names, time.Now())
	require.NoError(t, err)
	require.NoError(t, h.set(made[certificateKey], made[privateKey], made[bundleKey]))
	config := h.TLS()
	check.On(config)
	near, far := net.Pipe()
	server, client := tls.Server(near, config), tls.Client(far, &tls.Config{
		Certificates: certificates, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12,
	})
	go func() {
		_, _ = client.Read(make([]byte, 1)) // which begins with the handshake
	}()
	defer func() { _ = far.Close(); _ = near.Close() }()
	return server.HandshakeContext(t.Context())
}

func TestClientsProveThemselvesByCertificate(t *testing.T) {
	ours, other := testcerts.NewAuthority(t, "ours"), testcerts.NewAuthority(t, "other")
	right := ours.Issue(t, "kube-apiserver").TLS(t)
	wrongName := ours.Issue(t, "a-pod").TLS(t)
	foreign := other.Issue(t, "kube-apiserver").TLS(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(file, []byte(ours.PEM), 0o600))
	only := []string{"kube-apiserver"}
	for _, c := range []struct {
		name    string
		clients Clients
		with    []tls.Certificate
		refused string
	}{
		{"nothing is asked for without roots", Clients{}, []tls.Certificate{foreign}, ""},
		{"given and right", Clients{CA: file}, []tls.Certificate{right}, ""},
		{"not given", Clients{CA: file}, nil, ""},
		{"given and foreign", Clients{CA: file}, []tls.Certificate{foreign}, UnknownAuthority},
		{"required and not given", Clients{CA: file, Required: true}, nil, NoCertificate},
		{"required and given", Clients{CA: file, Required: true}, []tls.Certificate{right}, ""},
		{"named", Clients{CA: file, Names: only}, []tls.Certificate{right}, ""},
		{"other name", Clients{CA: file, Names: only}, []tls.Certificate{wrongName}, UnknownName},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused := ""
			check, err := NewClientCheck(c.clients, func(reason string) { refused = reason })
			require.NoError(t, err)
			err = greet(t, check, c.with...)
			require.Equal(t, c.refused, refused)
			require.Equal(t, c.refused == "", err == nil, "%v", err)
		})
	}
}

func TestAuthoritiesOfClientsAreReadAgain(t *testing.T) {
	first, second := testcerts.NewAuthority(t, "first"), testcerts.NewAuthority(t, "second")
	file := filepath.Join(t.TempDir(), "ca.crt")
	_, err := NewClientCheck(Clients{CA: file}, nil)
	require.ErrorContains(t, err, file)
	require.NoError(t, os.WriteFile(file, []byte(first.PEM), 0o600))
	check, err := NewClientCheck(Clients{CA: file}, func(string) {})
	require.NoError(t, err)
	require.Error(t, greet(t, check, second.Issue(t, "kube-apiserver").TLS(t)))

	require.NoError(t, os.WriteFile(file, []byte("nothing"), 0o600))
	_, err = check.reload(nil)
	require.ErrorContains(t, err, "no certificate in PEM")
	require.NoError(t, greet(t, check, first.Issue(t, "kube-apiserver").TLS(t)), "the last valid ones stay")

	require.NoError(t, os.WriteFile(file, []byte(second.PEM), 0o600))
	_, err = check.reload(nil)
	require.NoError(t, err)
	require.NoError(t, greet(t, check, second.Issue(t, "kube-apiserver").TLS(t)))
}
