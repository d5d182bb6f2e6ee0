package incluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	securityv1 "istio.io/api/security/v1alpha1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// certificateIsIssued asks a replica for a certificate as an agent does: with the roots of its
// namespace and the token of its service account.
func (c *cluster) certificateIsIssued(t *testing.T, r *replica) {
	const uri = "spiffe://cluster.local/ns/default/sa/default"
	roots := c.roots(t)
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", r.ports["secure-xds"]),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			RootCAs: roots, ServerName: "istiod.istio-system.svc", MinVersion: tls.VersionTLS12,
		})))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	token, err := c.client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}},
		}, metav1.CreateOptions{})
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token.Status.Token)
	answer, err := securityv1.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx,
		&securityv1.IstioCertificateRequest{
			Csr: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})),
		})
	require.NoError(t, err, r.said())
	block, _ := pem.Decode([]byte(answer.GetCertChain()[0]))
	leaf, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	require.Equal(t, uri, leaf.URIs[0].String())
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots})
	require.NoError(t, err)
}

// roots returns the roots of the mesh that workloads of the namespace default have.
func (c *cluster) roots(t require.TestingT) *x509.CertPool {
	ctx := context.Background()
	configMap, err := c.client.CoreV1().ConfigMaps("default").Get(ctx, "istio-ca-root-cert", metav1.GetOptions{})
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(configMap.Data["root-cert.pem"])))
	return roots
}
