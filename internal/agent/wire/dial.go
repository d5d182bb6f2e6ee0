package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/api/compliance"
)

// Upstream says how the control plane is reached.
type Upstream struct {
	// Address is host:port.
	Address string
	// ServerName is in the certificate of the server. Empty means the host of Address.
	ServerName string
	// RootFile has the roots that the server's certificate is verified by, in PEM. It is read for
	// each new connection. Empty means the roots of the system.
	RootFile string
	// Compliance limits what TLS may use.
	Compliance compliance.Policy
	// Plaintext connects without TLS, and sends no token. Address must be of this machine.
	Plaintext bool
	// TokenFile has the token that is sent as "authorization: Bearer …"; it is read for each call.
	// Empty means none.
	TokenFile string
	// ClusterID is sent as the metadata of that name. Empty means none.
	ClusterID string
	// Headers are sent with each call (XDS_HEADER_…). Their names are in lower case.
	Headers map[string]string
	// Certificate returns the certificate of the client, or nil if there is none now. It is called
	// for each new connection, and may be nil itself.
	Certificate func() *tls.Certificate
	// NoToken has the certificate take the place of the token as soon as there is one.
	//
	// Where a call is proved by a certificate and its connection was opened with none or another
	// one, which may have ended, the connection is closed and the call fails as Unavailable.
	NoToken bool
}

const (
	// maxMessage is the size of the largest message that is taken.
	maxMessage = 128 << 20

	connectTimeout    = 5 * time.Second
	connectBackoff    = time.Second / 2
	maxConnectBackoff = 5 * time.Second
	keepaliveInterval = 30 * time.Second
	keepaliveTimeout  = 10 * time.Second
)

// Dial returns a connection to the control plane, which is opened when it is first used.
func (u Upstream) Dial() (*grpc.ClientConn, error) {
	transport, err := u.transport()
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(u.Address,
		grpc.WithTransportCredentials(transport),
		grpc.WithPerRPCCredentials(callMetadata{u}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Codec{}), grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveInterval, Timeout: keepaliveTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: connectTimeout,
			Backoff: backoff.Config{
				BaseDelay: connectBackoff, Multiplier: 1.6, Jitter: 0.5, MaxDelay: maxConnectBackoff,
			},
		}),
		grpc.WithDisableServiceConfig(),
		grpc.WithWriteBufferSize(4<<10),
		grpc.WithReadBufferSize(4<<10),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(window),
	)
}

func (u Upstream) transport() (credentials.TransportCredentials, error) {
	host, _, err := net.SplitHostPort(u.Address)
	if err != nil {
		return nil, fmt.Errorf("the control plane's address %q: %w; want host:port", u.Address, err)
	}
	if u.Plaintext {
		if !isLoopback(host) {
			return nil, fmt.Errorf("the control plane's address %q: plaintext is for this machine only; want TLS, "+
				"or 127.0.0.1", u.Address)
		}
		return insecure.NewCredentials(), nil
	}
	if u.ServerName == "" {
		u.ServerName = host
	}
	return &rootsOfFile{u, u.tls(nil)}, nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// rootsOfFile are the credentials of a connection that read the roots for each handshake.
type rootsOfFile struct {
	Upstream
	credentials.TransportCredentials
}

func (u Upstream) tls(roots *x509.CertPool) credentials.TransportCredentials {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.ServerName, RootCAs: roots}
	u.Compliance.Limit(config)
	if u.Certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if own := u.Certificate(); own != nil {
				return own, nil
			}
			return &tls.Certificate{}, nil
		}
	}
	return credentials.NewTLS(config)
}

// ClientHandshake implements credentials.TransportCredentials. The name of the server is that of
// the configuration, whatever the address.
func (r *rootsOfFile) ClientHandshake(
	ctx context.Context, _ string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	var roots *x509.CertPool
	if r.RootFile != "" {
		var err error
		if roots, err = readRoots(r.RootFile); err != nil {
			return nil, nil, err
		}
	}
	shown := &tls.Certificate{}
	u := r.Upstream
	if own := u.Certificate; own != nil {
		u.Certificate = func() *tls.Certificate {
			if present := own(); present != nil {
				shown = present
			}
			return shown
		}
	}
	secured, info, err := u.tls(roots).ClientHandshake(ctx, r.ServerName, conn)
	if tlsInfo, ok := info.(credentials.TLSInfo); err == nil && ok {
		return secured, secureConn{tlsInfo, conn, shown}, nil
	}
	return secured, info, err
}

// secureConn is what calls know of their connection, and of the certificate that was shown when it
// was opened.
type secureConn struct {
	credentials.TLSInfo
	conn  net.Conn
	shown *tls.Certificate
}

// Clone implements credentials.TransportCredentials.
func (r *rootsOfFile) Clone() credentials.TransportCredentials {
	return &rootsOfFile{r.Upstream, r.TransportCredentials.Clone()}
}

func readRoots(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the roots of the control plane: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("the roots of the control plane: %s has no certificate; want PEM", path)
	}
	return roots, nil
}

// callMetadata adds the metadata of each call.
type callMetadata struct{ Upstream }

// RequireTransportSecurity implements credentials.PerRPCCredentials. It is false, because plaintext
// sends metadata without the token.
func (callMetadata) RequireTransportSecurity() bool { return false }

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (c callMetadata) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	all := map[string]string{}
	for name, value := range c.Headers {
		all[strings.ToLower(name)] = value
	}
	if c.ClusterID != "" {
		all["clusterid"] = c.ClusterID
	}
	if c.TokenFile == "" || c.Plaintext {
		return all, nil
	}
	var own *tls.Certificate
	if c.Certificate != nil {
		own = c.Certificate()
	}
	if c.NoToken && own != nil {
		return all, proves(ctx, own)
	}
	token, err := os.ReadFile(c.TokenFile)
	if errors.Is(err, fs.ErrNotExist) && own != nil {
		return all, proves(ctx, own)
	}
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "the token for the control plane: %v", err)
	}
	all["authorization"] = "Bearer " + strings.TrimSpace(string(token))
	return all, nil
}

// proves returns nil if the connection of a call was opened with a certificate, and else closes it.
func proves(ctx context.Context, own *tls.Certificate) error {
	info, _ := credentials.RequestInfoFromContext(ctx)
	c, ok := info.AuthInfo.(secureConn)
	if !ok || slices.EqualFunc(c.shown.Certificate, own.Certificate, bytes.Equal) {
		return nil
	}
	_ = c.conn.Close() // the transport finds out
	return status.Error(codes.Unavailable, "the connection was opened with another certificate or none; trying again")
}
