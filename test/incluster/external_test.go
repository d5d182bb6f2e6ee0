package incluster

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	securityv1 "istio.io/api/security/v1alpha1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
)

// signerName is that of the signer in docs/ca.md.
const signerName = "example.com/mesh"

// kubernetesSigner is a controller that signs what was approved for signerName.
type kubernetesSigner struct{ *certs.Authority }

func newKubernetesSigner(t *testing.T) kubernetesSigner {
	t.Helper()
	return kubernetesSigner{certs.NewAuthority(t, "a signer elsewhere")}
}

// run signs until ctx ends.
func (s kubernetesSigner) run(ctx context.Context, client kubernetes.Interface) error {
	requests := client.CertificatesV1().CertificateSigningRequests()
	w, err := requests.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		r, ok := event.Object.(*certificatesv1.CertificateSigningRequest)
		if !ok || r.Spec.SignerName != signerName || len(r.Status.Certificate) > 0 || len(r.Status.Conditions) == 0 {
			continue
		}
		leaf, err := s.Sign(r.Spec.Request, time.Now().Add(time.Duration(*r.Spec.ExpirationSeconds)*time.Second))
		if err != nil {
			return err
		}
		r.Status.Certificate = []byte(leaf)
		_, _ = requests.UpdateStatus(ctx, r, metav1.UpdateOptions{}) // it may be gone
	}
	return nil
}

// TestSignersOfKubernetesSignForWorkloads: with EXTERNAL_CA, workloads get certificates that a
// signer of Kubernetes has signed, and so does the control plane itself, with the rights that
// the chart gives for these variables. Nothing is left behind.
func TestSignersOfKubernetesSignForWorkloads(t *testing.T) {
	c, signer := newCluster(t), newKubernetesSigner(t)
	c.applyManifests(t, "--set", "pilot.env.EXTERNAL_CA=ISTIOD_RA_KUBERNETES_API",
		"--set", "pilot.env.K8S_SIGNER="+signerName)
	c.apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, namespace: istio-system}\ndata:\n  mesh: |\n"+
		"    caCertificates:\n    - certSigners: ["+signerName+"]\n      pem: |\n        "+
		strings.ReplaceAll(strings.TrimSpace(signer.PEM), "\n", "\n        ")+"\n")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- signer.run(ctx, c.client) }()
	defer func() {
		cancel()
		require.NoError(t, <-ended)
	}()
	t.Setenv("EXTERNAL_CA", "ISTIOD_RA_KUBERNETES_API")
	t.Setenv("K8S_SIGNER", signerName)
	r := c.start(t)
	r.ready(t)
	c.certificateIsServed(t, r)

	a := c.newPilotAgent(t, r)
	pair := a.certified(t)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	require.NoError(t, leaf.CheckSignatureFrom(signer.Certificate()))
	require.Equal(t, "spiffe://cluster.local/ns/default/sa/default", leaf.URIs[0].String())
	require.Equal(t, signer.Certificate().Raw, pair.Certificate[len(pair.Certificate)-1])

	conn, call := a.dial(t, pair)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(call)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: a.node(t), TypeUrl: clusterType}))
	_, err = stream.Recv()
	require.NoError(t, err, "its certificate opens a stream")

	for _, test := range []struct {
		name, signer string
		request      *x509.CertificateRequest
		code         codes.Code
		text         string
	}{
		{"no name", "", &x509.CertificateRequest{}, codes.PermissionDenied, "want that one alone"},
		{
			"a name that the signer would copy", "", &x509.CertificateRequest{Subject: pkix.Name{CommonName: "admin"}},
			codes.InvalidArgument, "has the subject",
		},
		{
			"a signer", "other", &x509.CertificateRequest{URIs: leaf.URIs}, codes.InvalidArgument,
			"there is no CERT_SIGNER_DOMAIN",
		},
	} {
		der, err := x509.CreateCertificateRequest(rand.Reader, test.request, a.key)
		require.NoError(t, err)
		conn, call := a.dial(t)
		_, err = securityv1.NewIstioCertificateServiceClient(conn).CreateCertificate(call,
			&securityv1.IstioCertificateRequest{
				Csr: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})),
				Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
					"CertSigner": structpb.NewStringValue(test.signer),
				}},
			})
		require.Equal(t, test.code, status.Code(err), "%s: %v", test.name, err)
		require.ErrorContains(t, err, test.text, test.name)
	}
	eventually(t, func(ct require.TestingT) {
		left, err := c.client.CertificatesV1().CertificateSigningRequests().List(context.Background(),
			metav1.ListOptions{})
		require.NoError(ct, err)
		require.Empty(ct, left.Items)
	})
	require.NotContains(t, r.said(), "forbidden", "all that it does, it may do")
}
