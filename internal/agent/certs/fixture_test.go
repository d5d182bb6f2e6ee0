package certs

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	securityv1 "istio.io/api/security/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	identity = "spiffe://cluster.local/ns/shop/sa/books"
	token    = "the token of books"
	// patience is how long anything may take that should happen in a moment.
	patience = time.Minute
)

// realCA is Lateen's, behind TLS.
type realCA struct {
	address string
	holder  *ca.Holder
	roots   string // file
}

// newRoot returns the keys of a self-signed root.
func newRoot(t testing.TB, name string) ca.Keys {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{Organization: []string{name}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * 365 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return ca.Keys{
		Certificate: certificate, Roots: certificate,
		Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// listOf returns a list of certificates that a root has revoked, in PEM.
func listOf(t testing.TB, root ca.Keys, serials ...*big.Int) []byte {
	t.Helper()
	issuer, err := tls.X509KeyPair(root.Certificate, root.Key)
	require.NoError(t, err)
	signer, ok := issuer.PrivateKey.(crypto.Signer)
	require.True(t, ok)
	list := &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(time.Hour),
	}
	for _, serial := range serials {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: serial, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, issuer.Leaf, signer)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

func authority(t testing.TB, keys ca.Keys) *ca.Authority {
	t.Helper()
	a, err := ca.New(keys, time.Now())
	require.NoError(t, err)
	return a
}

func startCA(t *testing.T, keys ca.Keys) *realCA {
	t.Helper()
	c := &realCA{holder: ca.NewHolder(), roots: filepath.Join(t.TempDir(), "root-cert.pem")}
	c.holder.Set(authority(t, keys))
	require.NoError(t, os.WriteFile(c.roots, keys.Roots, 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c.address = l.Addr().String()
	serving := ca.NewServing(c.holder, []string{"istiod.istio-system.svc"}, time.Now)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(serving.TLS())))
	securityv1.RegisterIstioCertificateServiceServer(server, ca.NewService(ca.ServiceOptions{
		Holder: c.holder, Authenticator: c, Certificates: &ca.Verifier{
			Roots: c.holder.Roots, Now: time.Now,
			Domains: func() ca.Domains { return ca.Domains{Own: "cluster.local"} },
		},
		TTL: ca.DefaultTTL, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Metrics: observe.New(observe.Build{Start: time.Now(), Now: time.Now}),
	}))
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-served })
	return c
}

// Authenticate knows one token.
func (c *realCA) Authenticate(_ context.Context, md metadata.MD) (ca.Identity, error) {
	if got := md.Get("authorization"); len(got) != 1 || got[0] != "Bearer "+token {
		return ca.Identity{}, errors.New("that is no token of books")
	}
	return ca.ParseIdentity(identity)
}

// connect returns a connection as the agent has it.
func (c *realCA) connect(t *testing.T) *grpc.ClientConn {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	conn, err := wire.Upstream{
		Address: c.address, ServerName: "istiod.istio-system.svc", RootFile: c.roots, TokenFile: file,
	}.Dial()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// testClock is a clock that the test moves. Whoever sleeps is woken when it is.
type testClock struct {
	mu      sync.Mutex
	now     time.Time
	wakeups []wakeup
	asleep  chan time.Duration // who goes to sleep, and how long
}

type wakeup struct {
	at time.Time
	c  chan time.Time
}

func newTestClock() *testClock {
	return &testClock{now: time.Now(), asleep: make(chan time.Duration, 1000)}
}

func (c *testClock) clock() Clock { return Clock{Now: c.Now, After: c.After} }

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := wakeup{c.now.Add(d), make(chan time.Time, 1)}
	c.wakeups = append(c.wakeups, w)
	select {
	case c.asleep <- d:
	default: // the test does not look
	}
	return w.c
}

func (c *testClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	var left []wakeup
	for _, w := range c.wakeups {
		if w.at.After(c.now) {
			left = append(left, w)
			continue
		}
		w.c <- c.now
	}
	c.wakeups = left
}

// agent is a running Manager, and a client of its socket.
type agent struct {
	t       *testing.T
	manager *Manager
	client  secretv3.SecretDiscoveryServiceClient
	socket  string
	log     *lockedBuffer
}

func start(t *testing.T, o Options) *agent {
	t.Helper()
	a := &agent{t: t, log: &lockedBuffer{}}
	if o.Clock.Now == nil {
		o.Clock = RealClock()
	}
	if o.Grace == 0 {
		o.Grace = 0.5
	}
	o.Request.Identity = identity
	o.Log = logTo(a.log)
	var err error
	a.manager, err = New(o)
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "sds") // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	a.socket = filepath.Join(dir, "socket")
	l, err := wire.Listen(a.socket)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = a.manager.Run(ctx) })
	wg.Go(func() { _ = a.manager.Serve(ctx, l) })
	conn, err := grpc.NewClient("unix:"+a.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	a.client = secretv3.NewSecretDiscoveryServiceClient(conn)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		cancel()
		wg.Wait()
	})
	return a
}

// sds is a delta stream for one secret.
type sds struct {
	t *testing.T
	grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
	name string
}

func (a *agent) ask(name string) sds {
	a.t.Helper()
	s, err := a.client.DeltaSecrets(a.t.Context())
	require.NoError(a.t, err)
	require.NoError(a.t, s.Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: typeurl.Secret, ResourceNamesSubscribe: []string{name},
	}))
	return sds{a.t, s, name}
}

func (s sds) next() *tlsv3.Secret {
	s.t.Helper()
	r, err := s.Recv()
	require.NoError(s.t, err)
	require.Len(s.t, r.GetResources(), 1)
	require.NotEmpty(s.t, r.GetResources()[0].GetVersion())
	ack := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeurl.Secret, ResponseNonce: r.GetNonce()}
	require.NoError(s.t, s.Send(ack))
	secret := &tlsv3.Secret{}
	require.NoError(s.t, r.GetResources()[0].GetResource().UnmarshalTo(secret))
	require.NoError(s.t, secret.ValidateAll())
	require.Equal(s.t, s.name, secret.GetName())
	return secret
}

// pair returns the certificates of a chain, and its key.
func (s sds) pair() (chain []*x509.Certificate, key []byte) {
	s.t.Helper()
	pair := s.next().GetTlsCertificate()
	chain, err := parsePEM(pair.GetCertificateChain().GetInlineBytes())
	require.NoError(s.t, err)
	return chain, pair.GetPrivateKey().GetInlineBytes()
}

func (s sds) roots() string {
	s.t.Helper()
	return string(s.next().GetValidationContext().GetTrustedCa().GetInlineBytes())
}

func logTo(b *lockedBuffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// lockedBuffer is a log that the test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// awaitLog waits until the log has a text so many times.
func (a *agent) awaitLog(text string, times int) {
	a.t.Helper()
	isThere := func() bool { return strings.Count(a.log.String(), text) == times }
	require.Eventually(a.t, isThere, patience, time.Millisecond)
}

// filesIn are the files of a certificate, under Istio's names.
func filesIn(dir string) Files {
	return Files{
		Chain: filepath.Join(dir, "cert-chain.pem"),
		Key:   filepath.Join(dir, "key.pem"),
		Root:  filepath.Join(dir, "root-cert.pem"),
	}
}
