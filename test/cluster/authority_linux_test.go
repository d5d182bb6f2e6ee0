package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	securityv1 "istio.io/api/security/v1alpha1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// certificate returns one of the mesh, for the default service account, as an agent gets it.
func (c *cluster) certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	token, err := c.client.CoreV1().ServiceAccounts(space).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}},
		}, metav1.CreateOptions{})
	require.NoError(t, err)
	conn, err := grpc.NewClient("passthrough:///"+secureAddr().String(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return c.network.Dial(ctx, "tcp", address)
		}),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // the agents of pods verify it
		})))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token.Status.Token)
	answer, err := securityv1.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx,
		&securityv1.IstioCertificateRequest{
			Csr: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})),
		})
	require.NoError(t, err)
	pair := tls.Certificate{PrivateKey: key}
	for _, text := range answer.GetCertChain() {
		block, _ := pem.Decode([]byte(text))
		require.NotNil(t, block)
		pair.Certificate = append(pair.Certificate, block.Bytes)
	}
	return pair
}
