// Package sdsagent stands for Istio's agents in tests: it serves each proxy the certificate of its
// own service account over SDS, on a Unix socket.
package sdsagent

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// Agent serves all proxies that connect to its socket.
type Agent struct {
	secretv3.UnimplementedSecretDiscoveryServiceServer
	t *testing.T
	// Socket is the path of the socket, which every user of the machine may connect to.
	Socket string
	// Authority issues the certificates.
	Authority *certs.Authority
}

// Start starts an agent that ends with the test.
func Start(t *testing.T) *Agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "sds") // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	a := &Agent{t: t, Socket: filepath.Join(dir, "socket"), Authority: certs.NewAuthority(t, "mesh")}
	listener, err := net.Listen("unix", a.Socket)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // proxies run as another user
	require.NoError(t, os.Chmod(a.Socket, 0o777))
	server := grpc.NewServer()
	secretv3.RegisterSecretDiscoveryServiceServer(server, a)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-ended })
	return a
}

// Spiffe is the identity of a service account.
func Spiffe(namespace, account string) string {
	return "spiffe://cluster.local/ns/" + namespace + "/sa/" + account
}

// StreamSecrets implements the state-of-the-world form, by which Istio's proxies ask. What was
// answered is not asked again.
func (a *Agent) StreamSecrets(stream secretv3.SecretDiscoveryService_StreamSecretsServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	identity := first.GetNode().GetMetadata().AsMap()
	for request := first; ; {
		if request.GetErrorDetail() != nil {
			a.t.Errorf("%s refuses its secret: %s", first.GetNode().GetId(), request.GetErrorDetail().GetMessage())
		}
		if request.GetResponseNonce() == "" {
			answer, err := a.answer(request.GetResourceNames(), identity)
			if err != nil {
				return err
			}
			if err := stream.Send(answer); err != nil {
				return err
			}
		}
		if request, err = stream.Recv(); err != nil {
			return err
		}
	}
}

func (a *Agent) answer(names []string, identity map[string]any) (*discoveryv3.DiscoveryResponse, error) {
	answer := &discoveryv3.DiscoveryResponse{TypeUrl: typeurl.Secret, VersionInfo: "1", Nonce: "1"}
	for _, name := range names {
		secret := &tlsv3.Secret{Name: name}
		switch name {
		case "default":
			account, _ := identity["SERVICE_ACCOUNT"].(string)
			if account == "" {
				account = "default"
			}
			pair := a.Authority.Issue(a.t, "proxy", certs.Identity(Spiffe(fmt.Sprint(identity["NAMESPACE"]), account)))
			secret.Type = &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
				CertificateChain: inline(pair.Certificate), PrivateKey: inline(pair.Key),
			}}
		case "ROOTCA":
			secret.Type = &tlsv3.Secret_ValidationContext{
				ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: inline(a.Authority.PEM)},
			}
		default:
			if files, ok := strings.CutPrefix(name, "file-cert:"); ok {
				pair, err := pairOf(files)
				if err != nil {
					return nil, status.Error(codes.Unavailable, err.Error())
				}
				secret.Type = pair
				break
			}
			return nil, status.Errorf(codes.InvalidArgument, "no proxy of Istio asks for %q", name)
		}
		packed, err := anypb.New(proto.Message(secret))
		if err != nil {
			return nil, err
		}
		answer.Resources = append(answer.Resources, packed)
	}
	return answer, nil
}

// pairOf reads the certificate and the key of a name "<path>~<path>".
func pairOf(files string) (*tlsv3.Secret_TlsCertificate, error) {
	chain, key, _ := strings.Cut(files, "~")
	certificate, err := os.ReadFile(chain)
	if err != nil {
		return nil, err
	}
	private, err := os.ReadFile(key)
	if err != nil {
		return nil, err
	}
	return &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline(string(certificate)),
		PrivateKey:       inline(string(private)),
	}}, nil
}

func inline(text string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}
}
