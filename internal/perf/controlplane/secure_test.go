package controlplane

import (
	"crypto/tls"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTokensSayWhoTheirSidecarIs(t *testing.T) {
	made, err := NewSecurity()
	require.NoError(t, err)
	s, err := ReadSecurity(made.Setting())
	require.NoError(t, err)
	token := s.Token("shop", "default", "web-0")
	require.Len(t, token, tokenBytes)
	namespace, account, pod, known := s.Account(token)
	require.Equal(t, []any{"shop", "default", "web-0", true}, []any{namespace, account, pod, known})

	other, err := NewSecurity()
	require.NoError(t, err)
	for _, forged := range []string{other.Token("shop", "default", "web-0"), "", "a.b.c", token[1:], "." + token} {
		_, _, _, known := s.Account(forged)
		require.False(t, known, forged)
	}
}

func TestSidecarsTrustTheControlPlane(t *testing.T) {
	s, err := NewSecurity()
	require.NoError(t, err)
	server, err := s.Server()
	require.NoError(t, err)
	client, err := s.Client()
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	require.NoError(t, err)
	accepted := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			err = conn.(*tls.Conn).HandshakeContext(t.Context())
			_ = conn.Close()
		}
		accepted <- err
	}()
	client = client.Clone()
	client.ServerName = "127.0.0.1"
	conn, err := tls.Dial("tcp", l.Addr().String(), client)
	require.NoError(t, err)
	require.NoError(t, <-accepted)
	require.NoError(t, conn.Close())
	require.NoError(t, l.Close())
	_, err = ReadSecurity("nonsense")
	require.ErrorContains(t, err, SecurityVariable)
}
