package agents

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/lateen-mesh/lateen/internal/trust/ca"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

func start(t *testing.T) (*Authority, *Agent) {
	t.Helper()
	a, err := New(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, a.Close())
		require.NoDirExists(t, a.dir)
	})
	g, err := a.Agent(ca.Identity{TrustDomain: "mesh.test", Namespace: "shop", ServiceAccount: "web", Pod: "web-1"})
	require.NoError(t, err)
	return a, g
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

func TestAgentServesTheCertificateOfItsWorkload(t *testing.T) {
	_, g := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()

	own := secretOf(t, g, "default").GetTlsCertificate()
	pair, err := tls.X509KeyPair(own.GetCertificateChain().GetInlineBytes(), own.GetPrivateKey().GetInlineBytes())
	require.NoError(t, err)
	require.Equal(t, "spiffe://mesh.test/ns/shop/sa/web", pair.Leaf.URIs[0].String())
	roots := x509.NewCertPool()
	trusted := secretOf(t, g, "ROOTCA").GetValidationContext().GetTrustedCa().GetInlineBytes()
	require.True(t, roots.AppendCertsFromPEM(trusted))
	_, err = pair.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	require.NoError(t, err)
	info, err := os.Stat(g.Socket())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	cancel()
	require.NoError(t, <-ended)
	require.NoDirExists(t, g.dir, "keys are removed")
}

func TestCertificateIsRenewedAfterHalfOfItsLife(t *testing.T) {
	_, g := start(t)
	now := time.Now()
	require.WithinRange(t, g.due, now.Add(ttl/2-time.Minute), now.Add(ttl/2+time.Minute))
	before, err := os.ReadFile(g.file("chain"))
	require.NoError(t, err)
	require.NoError(t, g.issue(now.Add(time.Hour)))
	after, err := os.ReadFile(g.file("chain"))
	require.NoError(t, err)
	require.NotEqual(t, before, after)
	require.Equal(t, now.Round(0).Add(time.Hour+ttl/2), g.due)
	require.NoError(t, g.Close())
	require.NoDirExists(t, g.dir)
}
