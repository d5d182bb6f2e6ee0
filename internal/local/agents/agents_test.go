package agents

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	securityv1 "istio.io/api/security/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/trust/ca"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

func newAuthority(t *testing.T) *Authority {
	t.Helper()
	a, err := New(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, a.Close())
		require.NoDirExists(t, a.dir)
	})
	return a
}

// run runs the agent of a service account, whose token is its name.
func (a *Authority) run(t *testing.T, account string) (g *Agent, end func()) {
	t.Helper()
	g, err := a.Agent(ca.Identity{
		TrustDomain: "mesh.test", Namespace: "shop", ServiceAccount: account, Pod: account + "-1",
	}, account)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoDirExists(t, g.dir)
	})
	t.Cleanup(end)
	return g, end
}

// secretOf returns a secret that the agent serves, as Envoy asks for it.
func secretOf(t *testing.T, g *Agent, name string) *tlsv3.Secret {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+g.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	stream, err := secretv3.NewSecretDiscoveryServiceClient(conn).StreamSecrets(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&discoveryv3.DiscoveryRequest{
		Node: &corev3.Node{Id: "n"}, TypeUrl: typeurl.Secret, ResourceNames: []string{name},
	}))
	response, err := stream.Recv()
	require.NoError(t, err)
	require.Len(t, response.GetResources(), 1)
	secret := &tlsv3.Secret{}
	require.NoError(t, response.GetResources()[0].UnmarshalTo(secret))
	return secret
}

func pairOf(t *testing.T, g *Agent) tls.Certificate {
	t.Helper()
	own := secretOf(t, g, "default").GetTlsCertificate()
	pair, err := tls.X509KeyPair(own.GetCertificateChain().GetInlineBytes(), own.GetPrivateKey().GetInlineBytes())
	require.NoError(t, err)
	return pair
}

func TestEachAgentServesTheCertificateOfItsWorkload(t *testing.T) {
	a := newAuthority(t)
	web, _ := a.run(t, "web")
	cart, _ := a.run(t, "cart")
	pair, other := pairOf(t, web), pairOf(t, cart)
	require.Equal(t, "spiffe://mesh.test/ns/shop/sa/web", pair.Leaf.URIs[0].String())
	require.Equal(t, "spiffe://mesh.test/ns/shop/sa/cart", other.Leaf.URIs[0].String())
	require.NotEqual(t, pair.PrivateKey, other.PrivateKey)
	require.WithinDuration(t, time.Now().Add(ttl), pair.Leaf.NotAfter, time.Hour)

	roots := x509.NewCertPool()
	trusted := secretOf(t, web, "ROOTCA").GetValidationContext().GetTrustedCa().GetInlineBytes()
	require.True(t, roots.AppendCertsFromPEM(trusted))
	for _, p := range []tls.Certificate{pair, other} {
		_, err := p.Leaf.Verify(x509.VerifyOptions{
			Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		})
		require.NoError(t, err)
	}
	info, err := os.Stat(web.Socket())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, filepath.WalkDir(a.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		require.NotContains(t, string(text), "PRIVATE KEY", path)
		return err
	}))
}

// A token is good for the identity of its Pod alone, and as long as the Pod's agent runs.
func TestTokensAreGoodForTheirWorkloadWhileItRuns(t *testing.T) {
	a := newAuthority(t)
	_, end := a.run(t, "web")
	csr := func(uri string) string {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		name, err := url.Parse(uri)
		require.NoError(t, err)
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: []*url.URL{name}}, key)
		require.NoError(t, err)
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	}
	roots, err := credentials.NewClientTLSFromFile(a.rootFile(), serverName)
	require.NoError(t, err)
	conn, err := grpc.NewClient(a.address, grpc.WithTransportCredentials(roots))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	ask := func(token, uri string) codes.Code {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		_, err := securityv1.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx,
			&securityv1.IstioCertificateRequest{Csr: csr(uri)})
		return status.Code(err)
	}
	const web, cart = "spiffe://mesh.test/ns/shop/sa/web", "spiffe://mesh.test/ns/shop/sa/cart"
	require.Equal(t, codes.OK, ask("web", web))
	require.Equal(t, codes.PermissionDenied, ask("web", cart))
	require.Equal(t, codes.Unauthenticated, ask("another", web))
	end()
	require.Equal(t, codes.Unauthenticated, ask("web", web))
}

func TestAnAgentThatNeverRanLeavesNothing(t *testing.T) {
	a := newAuthority(t)
	g, err := a.Agent(ca.Identity{TrustDomain: "mesh.test", Namespace: "shop", ServiceAccount: "web"}, "web")
	require.NoError(t, err)
	require.NoError(t, g.Close())
	require.NoDirExists(t, g.dir)
	require.Empty(t, a.callers.byHash)
}
