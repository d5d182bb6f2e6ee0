package incluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
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
	a := c.newApplicant(t, r)
	answer, err := a.ask(t.Context(), c.workloadToken(t, "default"))
	require.NoError(t, err, r.said())
	block, _ := pem.Decode([]byte(answer.GetCertChain()[0]))
	leaf, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	require.Equal(t, uri, leaf.URIs[0].String())
	_, err = leaf.Verify(x509.VerifyOptions{Roots: a.roots})
	require.NoError(t, err)
}

// workloadToken returns one of the service account default of a namespace, for the control plane.
func (c *cluster) workloadToken(t *testing.T, namespace string) string {
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}},
		}, metav1.CreateOptions{})
	require.NoError(t, err)
	return token.Status.Token
}

// applicant asks a replica for certificates of one key.
type applicant struct {
	address string
	roots   *x509.CertPool
	csr     string
}

func (c *cluster) newApplicant(t *testing.T, r *replica) applicant {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	return applicant{
		address: fmt.Sprintf("127.0.0.1:%d", r.ports["secure-xds"]), roots: c.roots(t),
		csr: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr})),
	}
}

// ask asks for a certificate, on a connection of its own.
func (a applicant) ask(ctx context.Context, token string) (*securityv1.IstioCertificateResponse, error) {
	conn, err := grpc.NewClient(a.address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: a.roots, ServerName: "istiod.istio-system.svc", MinVersion: tls.VersionTLS12,
	})))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	return securityv1.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx,
		&securityv1.IstioCertificateRequest{Csr: a.csr})
}

var (
	certificates = flag.Int("certificates", 0, "how many certificates TestCostOfACertificate asks for")
	atATime      = flag.Int("at-a-time", 1, "how many of them at a time")
)

// TestCostOfACertificate tells what a certificate costs a control plane in CPU: each on a TLS
// connection of its own, a tenth of them with a token that the control plane does not know yet.
func TestCostOfACertificate(t *testing.T) {
	if *certificates == 0 {
		t.Skip("measures: go test ./test/incluster -run TestCostOfACertificate -certificates 2000 -v")
	}
	c := newCluster(t)
	r := c.start(t)
	r.ready(t)
	r.await(t, func(ct require.TestingT) { c.roots(ct) })
	var tokens []string
	for range *certificates / 10 {
		tokens = append(tokens, c.workloadToken(t, "default"))
	}
	a := c.newApplicant(t, r)
	_, err := a.ask(t.Context(), c.workloadToken(t, "default"))
	require.NoError(t, err, r.said())
	const spent = "process_cpu_seconds_total"
	before := r.metric(spent)
	asking, ctx := errgroup.WithContext(t.Context())
	asking.SetLimit(*atATime)
	for i := range *certificates {
		asking.Go(func() error {
			_, err := a.ask(ctx, tokens[i/10])
			return err
		})
	}
	require.NoError(t, asking.Wait(), r.said())
	t.Logf("%.0f µs of CPU for each of %d certificates, %d at a time",
		(r.metric(spent)-before)*1e6/float64(*certificates), *certificates, *atATime)
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
