package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
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

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

// serverNames are those of the control plane and the authority: agents expect Istio's on localhost.
var serverNames = []string{"localhost", "istiod.istio-system.svc"}

// elsewhere is a certificate authority that is not Lateen's, as cert-manager's istio-csr: it serves
// Istio's protocol by itself.
type elsewhere struct {
	securityv1.UnimplementedIstioCertificateServiceServer

	*certs.Authority
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	return &elsewhere{Authority: certs.NewAuthority(t, "an authority elsewhere")}
}

// CreateCertificate implements securityv1.IstioCertificateServiceServer.
func (e *elsewhere) CreateCertificate(
	ctx context.Context, r *securityv1.IstioCertificateRequest,
) (*securityv1.IstioCertificateResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if len(md.Get("authorization")) == 0 {
		return nil, status.Error(codes.Unauthenticated, "want a token")
	}
	leaf, err := e.Sign([]byte(r.GetCsr()), time.Now().Add(24*time.Hour))
	return &securityv1.IstioCertificateResponse{CertChain: []string{leaf, e.PEM}}, err
}

// serve serves the protocol over TLS, and returns the address.
func (e *elsewhere) serve(t *testing.T) string {
	t.Helper()
	own := e.Issue(t, "istiod", certs.Names(serverNames...)).TLS(t)
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
	server := other.Issue(t, "istiod", certs.Names(serverNames...))
	for name, text := range map[string]string{
		"tls.crt": server.Certificate, "tls.key": server.Key, "roots.pem": other.PEM,
	} {
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
	p.write(rootFile, other.PEM)
	p.over("localhost:"+at[1], "MUTUAL_TLS")
	p.write("certs/.keep", "")
	agent := p.run("OUTPUT_CERTS=certs", "CA_ADDR="+other.serve(t))
	agent.await()
	pair, roots := p.certificate()
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	require.NoError(t, leaf.CheckSignatureFrom(other.Certificate()))
	p.awaitCall(&pair, roots)
	require.Error(t, p.call(nil, roots), "a caller without a certificate")

	address := "localhost:" + at[1]
	require.NoError(t, openStream(t, address, other, pair))
	stranger := newElsewhere(t).Issue(t, "edge", certs.Identity(uri)).TLS(t)
	require.Equal(t, codes.Unauthenticated, status.Code(openStream(t, address, other, stranger)))
	foreign := other.Issue(t, "edge", certs.Identity("spiffe://other.local/ns/default/sa/edge")).TLS(t)
	require.Equal(t, codes.Unauthenticated, status.Code(openStream(t, address, other, foreign)))
	require.NoError(t, agent.stop(), agent.log.String())
}

// openStream asks for configuration with a certificate in place of a token.
func openStream(t *testing.T, address string, server *elsewhere, own tls.Certificate) error {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: server.Pool(), Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12,
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
