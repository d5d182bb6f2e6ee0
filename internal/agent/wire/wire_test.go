package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// server answers each call with its metadata, over TLS, and says who has called.
type server struct {
	address string
	calls   chan metadata.MD
	peers   chan []*x509.Certificate
}

func serve(t *testing.T, pair certs.Pair) *server {
	t.Helper()
	own, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.Key))
	require.NoError(t, err)
	s := &server{calls: make(chan metadata.MD, 8), peers: make(chan []*x509.Certificate, 8)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.address = l.Addr().String()
	g := grpc.NewServer(grpc.ForceServerCodecV2(Codec{}), grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert,
		VerifyConnection: func(c tls.ConnectionState) error { s.peers <- c.PeerCertificates; return nil },
	})), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		m := &Message{}
		if err := stream.RecvMsg(m); err != nil {
			return err
		}
		md, _ := metadata.FromIncomingContext(stream.Context())
		s.calls <- md
		return stream.SendMsg(m)
	}))
	served := make(chan struct{})
	go func() { defer close(served); _ = g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); <-served })
	return s
}

func call(t *testing.T, conn *grpc.ClientConn) error {
	t.Helper()
	got := &Message{}
	if err := conn.Invoke(t.Context(), "/any.Service/Method", Bytes([]byte{0x08, 0x01}), got); err != nil {
		return err
	}
	require.Equal(t, []byte{0x08, 0x01}, got.Data.Materialize())
	return nil
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// TestFilesAreFollowed changes the root and the token while the agent runs.
func TestFilesAreFollowed(t *testing.T) {
	authority := certs.NewAuthority(t, "mesh")
	s := serve(t, authority.Issue(t, "istiod.istio-system.svc"))
	dir := t.TempDir()
	root, token := filepath.Join(dir, "root"), filepath.Join(dir, "token")
	write(t, root, certs.NewAuthority(t, "another").PEM)
	own := authority.Issue(t, "proxy")
	pair, err := tls.X509KeyPair([]byte(own.Certificate), []byte(own.Key))
	require.NoError(t, err)
	var shown *tls.Certificate
	conn, err := Upstream{
		Address: s.address, ServerName: "istiod.istio-system.svc", RootFile: root, TokenFile: token,
		ClusterID: "east", Headers: map[string]string{"X-Tenant": "a"},
		Certificate: func() *tls.Certificate { return shown },
	}.Dial()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })

	require.ErrorContains(t, call(t, conn), "unknown authority")
	write(t, root, authority.PEM)
	reconnect(conn)
	require.ErrorContains(t, call(t, conn), "token for the control plane")
	require.Empty(t, <-s.peers)
	write(t, token, "one\n")
	require.NoError(t, call(t, conn))
	md := <-s.calls
	require.Equal(t, []string{"Bearer one"}, md.Get("authorization"))
	require.Equal(t, []string{"east"}, md.Get("ClusterID"))
	require.Equal(t, []string{"a"}, md.Get("x-tenant"))
	write(t, token, "two")
	require.NoError(t, call(t, conn))
	require.Equal(t, []string{"Bearer two"}, (<-s.calls).Get("authorization"))

	shown = &pair
	require.NoError(t, conn.Close())
	require.NoError(t, os.Remove(token))
	conn, err = Upstream{
		Address: s.address, ServerName: "istiod.istio-system.svc", RootFile: root, TokenFile: token,
		Certificate: func() *tls.Certificate { return shown },
	}.Dial()
	require.NoError(t, err)
	require.NoError(t, call(t, conn), "a certificate will do where there is no token")
	require.Len(t, <-s.peers, 1)
	require.Empty(t, (<-s.calls).Get("authorization"))
}

// TestACertificateTakesThePlaceOfTheToken as soon as there is one, also on a connection that was
// opened before.
func TestACertificateTakesThePlaceOfTheToken(t *testing.T) {
	authority := certs.NewAuthority(t, "mesh")
	s := serve(t, authority.Issue(t, "istiod.istio-system.svc"))
	dir := t.TempDir()
	root, token := filepath.Join(dir, "root"), filepath.Join(dir, "token")
	write(t, root, authority.PEM)
	write(t, token, "one")
	own := authority.Issue(t, "proxy")
	pair, err := tls.X509KeyPair([]byte(own.Certificate), []byte(own.Key))
	require.NoError(t, err)
	var shown *tls.Certificate
	conn, err := Upstream{
		Address: s.address, ServerName: "istiod.istio-system.svc", RootFile: root, TokenFile: token, NoToken: true,
		Certificate: func() *tls.Certificate { return shown },
	}.Dial()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	require.NoError(t, call(t, conn))
	require.Empty(t, <-s.peers)
	require.Equal(t, []string{"Bearer one"}, (<-s.calls).Get("authorization"))

	shown = &pair
	require.ErrorContains(t, call(t, conn), "opened with another certificate or none")
	require.Eventually(t, func() bool { return call(t, conn) == nil }, time.Minute, time.Millisecond)
	require.Len(t, <-s.peers, 1)
	require.Empty(t, (<-s.calls).Get("authorization"))

	renewed := authority.Issue(t, "proxy")
	second, err := tls.X509KeyPair([]byte(renewed.Certificate), []byte(renewed.Key))
	require.NoError(t, err)
	shown = &second // the first may have ended meanwhile
	require.ErrorContains(t, call(t, conn), "opened with another certificate or none")
	require.Eventually(t, func() bool { return call(t, conn) == nil }, time.Minute, time.Millisecond)
	require.Equal(t, second.Leaf.SerialNumber, (<-s.peers)[0].SerialNumber)
	require.Empty(t, (<-s.calls).Get("authorization"))

	shown = nil // it has ended
	require.NoError(t, call(t, conn))
	require.Equal(t, []string{"Bearer one"}, (<-s.calls).Get("authorization"))
}

// reconnect waits until a connection may be tried again.
func reconnect(conn *grpc.ClientConn) {
	conn.ResetConnectBackoff()
	conn.Connect()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for state := conn.GetState(); state != connectivity.Ready && conn.WaitForStateChange(ctx, state); {
		state = conn.GetState()
	}
}

func TestPlaintextIsForThisMachine(t *testing.T) {
	_, err := Upstream{Address: "10.0.0.1:15010", Plaintext: true}.Dial()
	require.ErrorContains(t, err, `"10.0.0.1:15010": plaintext is for this machine only`)
	_, err = Upstream{Address: "istiod"}.Dial()
	require.ErrorContains(t, err, "want host:port")
	for _, host := range []string{"127.0.0.1:1", "[::1]:1", "localhost:1"} {
		conn, err := Upstream{Address: host, Plaintext: true}.Dial()
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	got, err := callMetadata{Upstream{Plaintext: true, TokenFile: "none"}}.GetRequestMetadata(t.Context())
	require.NoError(t, err)
	require.NotContains(t, got, "authorization")
}

func TestSocketIsForTheOwnUserAlone(t *testing.T) {
	dir, err := os.MkdirTemp("", "wire") // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "own", "socket")
	for range 2 { // the second finds what the first has left
		l, err := Listen(path)
		require.NoError(t, err)
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		require.True(t, IsServed(path))
		require.NoError(t, l.Close())
		require.False(t, IsServed(path))
		for at, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
			info, err := os.Stat(at)
			require.NoError(t, err)
			require.Equal(t, mode, info.Mode().Perm(), at)
		}
	}
	file := filepath.Join(dir, "file")
	write(t, file, "")
	_, err = Listen(file)
	require.ErrorContains(t, err, "is no socket")
	_, err = Listen(filepath.Join(dir, string(make([]byte, 120))))
	require.ErrorContains(t, err, "want at most 107")
}

func TestBackoffDoublesUpToItsEnd(t *testing.T) {
	b := Backoff{Base: time.Second, Max: 5 * time.Second}
	for _, longest := range []time.Duration{1, 2, 4, 5, 5} {
		got := b.Next()
		require.GreaterOrEqual(t, got, longest*time.Second/2)
		require.LessOrEqual(t, got, longest*time.Second)
	}
	for range 100 {
		require.LessOrEqual(t, b.Next(), b.Max)
	}
	b.Reset()
	require.LessOrEqual(t, b.Next(), time.Second)
}
