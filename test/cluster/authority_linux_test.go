package cluster

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	securityv1 "istio.io/api/security/v1alpha1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

// certificate returns one of the mesh, for the default service account, as an agent gets it.
func (c *cluster) certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key := newKey(t)
	answer, err := c.createCertificate(t, c.token(t), requestOf(t, key))
	require.NoError(t, err)
	pair := tls.Certificate{PrivateKey: key}
	for _, text := range answer.GetCertChain() {
		pair.Certificate = append(pair.Certificate, parse(t, []byte(text))[0].Raw)
	}
	return pair
}

// token returns one of the default service account, which is bound to no Pod.
func (c *cluster) token(t *testing.T) string {
	t.Helper()
	token, err := c.client.CoreV1().ServiceAccounts(c.namespace).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}},
		}, metav1.CreateOptions{})
	require.NoError(t, err)
	return token.Status.Token
}

// connect returns a connection to the control plane, the context of a call with a token, and what
// ends both.
func (c *cluster) connect(t *testing.T, token string) (*grpc.ClientConn, context.Context, func()) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+secureAddr().String(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return c.network.Dial(ctx, "tcp", address)
		}),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // the agents of pods verify it
		})))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	end := func() {
		cancel()
		_ = conn.Close()
	}
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	return conn, ctx, end
}

// createCertificate asks the certificate authority.
func (c *cluster) createCertificate(
	t *testing.T, token, request string,
) (*securityv1.IstioCertificateResponse, error) {
	t.Helper()
	conn, ctx, end := c.connect(t, token)
	defer end()
	return securityv1.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx,
		&securityv1.IstioCertificateRequest{Csr: request})
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// requestOf returns a signing request that names some identities.
func requestOf(t *testing.T, key crypto.Signer, identities ...string) string {
	t.Helper()
	var request x509.CertificateRequest
	for _, identity := range identities {
		uri, err := url.Parse(identity)
		require.NoError(t, err)
		request.URIs = append(request.URIs, uri)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &request, key)
	require.NoError(t, err)
	return block(string(der))
}

// block returns a PEM block of a signing request's type, with any content.
func block(content string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte(content)}))
}

// signer is a certificate that signs others, and its key.
type signer struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// signer returns the root that signs now.
func (c *cluster) signer(t *testing.T) signer {
	t.Helper()
	secret, err := c.client.CoreV1().Secrets(rootNamespace).Get(t.Context(), ca.SelfSigned, metav1.GetOptions{})
	require.NoError(t, err)
	block, _ := pem.Decode(secret.Data["ca-key.pem"])
	require.NotNil(t, block)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	return signer{parse(t, secret.Data["ca-cert.pem"])[0], key.(crypto.Signer)}
}

// certify signs a certificate of an authority that ends after some time.
func (s signer) certify(t *testing.T, subject pkix.Name, key crypto.PublicKey, lives time.Duration) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject,
		NotBefore: time.Now().Add(-10 * 365 * 24 * time.Hour), NotAfter: time.Now().Add(lives),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, s.certificate, key, s.key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// intermediate returns the content of the Secret cacerts: an authority below the root.
func (s signer) intermediate(t *testing.T, lives time.Duration) map[string][]byte {
	t.Helper()
	key := newKey(t)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	own := s.certify(t, pkix.Name{CommonName: "intermediate"}, key.Public(), lives)
	return map[string][]byte{
		"ca-cert.pem": own, "cert-chain.pem": own,
		"ca-key.pem":    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		"root-cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.certificate.Raw}),
	}
}

// plug writes the Secret cacerts.
func (c *cluster) plug(t *testing.T, content map[string][]byte) {
	t.Helper()
	secrets := c.client.CoreV1().Secrets(rootNamespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: ca.Plugged}, Data: content}
	_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	}
	require.NoError(t, err)
}

// ageRoot gives the root a certificate that ends after some time, as if it were ten years old.
func (c *cluster) ageRoot(t *testing.T, left time.Duration) {
	t.Helper()
	root := c.signer(t)
	aged := root.certify(t, root.certificate.Subject, root.key.Public(), left)
	secrets := c.client.CoreV1().Secrets(rootNamespace)
	secret, err := secrets.Get(t.Context(), ca.SelfSigned, metav1.GetOptions{})
	require.NoError(t, err)
	secret.Data["ca-cert.pem"], secret.Data["root-cert.pem"] = aged, aged
	_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// distributedRoots are those that Pods of the namespace get.
func (c *cluster) distributedRoots(t *testing.T) []*x509.Certificate {
	t.Helper()
	m, err := c.client.CoreV1().ConfigMaps(c.namespace).Get(t.Context(), ca.RootsConfigMap, metav1.GetOptions{})
	require.NoError(t, err)
	return parse(t, []byte(m.Data[ca.RootsKey]))
}

func parse(t *testing.T, text []byte) (all []*x509.Certificate) {
	t.Helper()
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		one, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		all = append(all, one)
	}
	require.NotEmpty(t, all)
	return all
}

// value returns the value of a gauge or counter.
func value(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	require.NoError(t, m.Write(&out))
	return out.GetGauge().GetValue() + out.GetCounter().GetValue()
}

// proxyLogs reports whether a Pod's agent or Envoy has logged a text.
func (c *cluster) proxyLogs(t *testing.T, p corev1.Pod, text string) bool {
	t.Helper()
	all, err := c.kubelet.ProxyLog(p.Namespace, p.Name)
	require.NoError(t, err)
	return strings.Contains(all, text)
}

// envoyOf returns the process id of the Envoy that a Pod's agent has started last; 0 for none.
func (c *cluster) envoyOf(t *testing.T, p corev1.Pod) (pid int) {
	t.Helper()
	text, err := c.kubelet.ProxyLog(p.Namespace, p.Name)
	require.NoError(t, err)
	const started = `msg="Envoy started" pid=`
	if at := strings.LastIndex(text, started); at >= 0 {
		_, _ = fmt.Sscan(text[at+len(started):], &pid)
	}
	return pid
}
