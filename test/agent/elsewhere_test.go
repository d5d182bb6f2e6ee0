package agent

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
	"errors"
	"math/big"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	securityv1 "istio.io/api/security/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

// serverNames are those of the control plane and the authority: agents expect Istio's on localhost.
var serverNames = []string{"localhost", "istiod.istio-system.svc"}

// elsewhere is a certificate authority that is not Lateen's, as cert-manager's istio-csr: it serves
// Istio's protocol by itself.
type elsewhere struct {
	securityv1.UnimplementedIstioCertificateServiceServer

	root *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string // of the root
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority elsewhere"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	root, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &elsewhere{root: root, key: key, pem: encodePEM("CERTIFICATE", der)}
}

func encodePEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// sign returns a certificate for a key with some names.
func (e *elsewhere) sign(key crypto.PublicKey, uris []*url.URL, names ...string) ([]byte, error) {
	return x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: e.root.NotBefore, NotAfter: e.root.NotAfter,
		URIs: uris, DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, e.root, key, e.key)
}

// CreateCertificate implements securityv1.IstioCertificateServiceServer.
func (e *elsewhere) CreateCertificate(
	ctx context.Context, r *securityv1.IstioCertificateRequest,
) (*securityv1.IstioCertificateResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if len(md.Get("authorization")) == 0 {
		return nil, status.Error(codes.Unauthenticated, "want a token")
	}
	block, _ := pem.Decode([]byte(r.GetCsr()))
	if block == nil {
		return nil, errors.New("want PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	der, err := e.sign(request.PublicKey, request.URIs)
	return &securityv1.IstioCertificateResponse{CertChain: []string{encodePEM("CERTIFICATE", der), e.pem}}, err
}

// pair returns a key and a certificate for it.
func (e *elsewhere) pair(t *testing.T, identity string, names ...string) (tls.Certificate, string, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	var uris []*url.URL
	if identity != "" {
		uri, err := url.Parse(identity)
		require.NoError(t, err)
		uris = append(uris, uri)
	}
	der, err := e.sign(key.Public(), uris, names...)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	chain, keyText := encodePEM("CERTIFICATE", der), encodePEM("PRIVATE KEY", private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, chain, keyText
}

// serve serves the protocol over TLS, and returns the address.
func (e *elsewhere) serve(t *testing.T) string {
	t.Helper()
	own, _, _ := e.pair(t, "", serverNames...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&own)))
	securityv1.RegisterIstioCertificateServiceServer(server, e)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return strings.Replace(l.Addr().String(), "127.0.0.1", "localhost", 1)
}

// TestAgentsAskAnAuthorityElsewhere: with CA_ADDR the agent asks another authority, whose
// certificates make mutual TLS and open streams (--client-ca), while Lateen is no authority.
// Another root and another trust domain open none.
func TestAgentsAskAnAuthorityElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("a live test")
	}
	c, p, other := newCluster(t), newPod(t), newElsewhere(t)
	_, chain, key := other.pair(t, "", serverNames...)
	for name, text := range map[string]string{"tls.crt": chain, "tls.key": key, "roots.pem": other.pem} {
		p.write(name, text)
	}
	in := func(name string) string { return filepath.Join(p.dir, name) }
	lateen := lateenserve.Start(t, lateenserve.Options{
		Binary: binaries.lateen,
		Args: []string{
			"--kubeconfig", c.api.Kubeconfig(), "--secure-xds-address", "127.0.0.1:0", "--client-ca", in("roots.pem"),
			"--tls-cert", in("tls.crt"), "--tls-key", in("tls.key"),
		},
		Env: []string{"ENABLE_CA_SERVER=false"},
	})
	at := lateen.Await(t, `flag=--secure-xds-address address=127\.0\.0\.1:(\d+)`)
	c.configure(p, application(t))
	c.admit(p)
	p.write(rootFile, other.pem)
	p.over("localhost:"+at[1], "MUTUAL_TLS")
	p.write("certs/.keep", "")
	agent := p.run("OUTPUT_CERTS=certs", "CA_ADDR="+other.serve(t))
	agent.await()
	pair, roots := p.certificate()
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	require.NoError(t, leaf.CheckSignatureFrom(other.root))
	require.NoError(t, p.call(&pair, roots))
	require.Error(t, p.call(nil, roots), "a caller without a certificate")

	address := "localhost:" + at[1]
	require.NoError(t, openStream(t, address, other, pair))
	stranger, _, _ := newElsewhere(t).pair(t, uri)
	require.Equal(t, codes.Unauthenticated, status.Code(openStream(t, address, other, stranger)))
	foreign, _, _ := other.pair(t, "spiffe://other.local/ns/default/sa/edge")
	require.Equal(t, codes.Unauthenticated, status.Code(openStream(t, address, other, foreign)))
	require.NoError(t, agent.stop(), agent.log.String())
}

// openStream asks for configuration with a certificate in place of a token.
func openStream(t *testing.T, address string, server *elsewhere, own tls.Certificate) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(server.root)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: roots, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12,
	})))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	require.NoError(t, err)
	says, err := structpb.NewStruct(map[string]any{"NAMESPACE": "default", "SERVICE_ACCOUNT": "edge"})
	require.NoError(t, err)
	_ = stream.Send(&discoveryv3.DeltaDiscoveryRequest{ // Recv tells why it fails
		Node: &corev3.Node{
			Id: "sidecar~10.0.0.8~edge-1.default~default.svc.cluster.local", Metadata: says,
		},
		TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster",
	})
	_, err = stream.Recv()
	return err
}
