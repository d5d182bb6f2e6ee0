package agents

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	securityv1 "istio.io/api/security/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

const (
	// serverName is in the certificate of the authority's server, as in a cluster.
	serverName = "istiod.istio-system.svc"
	// maxRequest is the size of the largest request in bytes. A signing request has 16 KiB at most.
	maxRequest = 64 << 10
	// connectTimeout is how long a handshake may take.
	connectTimeout = 10 * time.Second
)

// Authority is the certificate authority of a local mesh. It serves agents over TLS on loopback,
// with the service that issues certificates in a cluster.
type Authority struct {
	dir     string // of the agents' files; its path is short, as those of sockets must be
	agents  atomic.Int64
	log     *slog.Logger
	address string
	server  *grpc.Server
	served  chan struct{}
	callers callers
}

// New makes an authority with a new root, and serves it until Close.
func New(log *slog.Logger) (*Authority, error) {
	authority, err := ca.NewSelfSigned(time.Now())
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lateen-") // for this user alone
	if err != nil {
		return nil, err
	}
	a := &Authority{dir: dir, log: log, served: make(chan struct{})}
	a.callers.byHash = map[tokenHash]ca.Identity{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = os.WriteFile(a.rootFile(), authority.Bundle(), 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the certificate authority: %w", err), os.RemoveAll(dir))
	}
	a.address, a.server = l.Addr().String(), a.newServer(authority)
	go func() {
		defer close(a.served)
		if err := a.server.Serve(l); err != nil {
			log.Error("no more certificates are issued", "error", err)
		}
	}()
	return a, nil
}

// newServer returns the server of the certificate service. Its counts are shown nowhere: each agent
// logs what fails.
func (a *Authority) newServer(authority *ca.Authority) *grpc.Server {
	holder := ca.NewHolder()
	holder.Set(authority)
	serving := ca.NewServing(holder, []string{serverName}, time.Now)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(serving.TLS())),
		grpc.MaxRecvMsgSize(maxRequest), grpc.ConnectionTimeout(connectTimeout))
	securityv1.RegisterIstioCertificateServiceServer(server, ca.NewService(ca.ServiceOptions{
		Holder:        holder,
		Authenticator: &a.callers,
		// Tokens prove agents. No trust domain is adopted, so no certificate does.
		Certificates: &ca.Verifier{
			Roots: holder.Roots, Now: time.Now, Domains: func() ca.Domains { return ca.Domains{} },
		},
		TTL: ca.DefaultTTL, Now: time.Now, Log: a.log,
		Metrics: observe.New(observe.Build{Start: time.Now(), Now: time.Now}),
	}))
	return server
}

// rootFile has the root, in PEM.
func (a *Authority) rootFile() string { return filepath.Join(a.dir, "root-cert.pem") }

// Close ends the service, and removes what agents have left.
func (a *Authority) Close() error {
	a.server.Stop()
	<-a.served
	return os.RemoveAll(a.dir)
}

type tokenHash [sha256.Size]byte

// callers are the workloads that may ask, by the hash of their token. There are as many as agents.
type callers struct {
	mu     sync.Mutex
	byHash map[tokenHash]ca.Identity
}

func (c *callers) add(token string, id ca.Identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byHash[sha256.Sum256([]byte(token))] = id
}

func (c *callers) remove(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byHash, sha256.Sum256([]byte(token)))
}

// Authenticate implements ca.Authenticator.
func (c *callers) Authenticate(_ context.Context, md metadata.MD) (ca.Identity, error) {
	const want = "want the token of a running pod of this mesh in the metadata authorization: Bearer …"
	said := md.Get("authorization")
	if len(said) != 1 {
		return ca.Identity{}, errors.New(want)
	}
	token, ok := strings.CutPrefix(said[0], "Bearer ")
	c.mu.Lock()
	defer c.mu.Unlock()
	id, known := c.byHash[sha256.Sum256([]byte(token))]
	if !ok || !known {
		return ca.Identity{}, errors.New(want)
	}
	return id, nil
}
