package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	securityv1 "istio.io/api/security/v1alpha1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// authority is the certificate authority of a cluster.
type authority struct {
	holder   *ca.Holder
	store    *ca.Store          // nil if signers of Kubernetes sign
	external *externalAuthority // nil if the store's authority signs
	signer   *ca.Registration   // that of external, or nil
	roots    *ca.Roots
	revoked  *ca.Roots                      // lists of revoked certificates in place of roots; nil if they are left out
	serving  interface{ TLS() *tls.Config } // nil if nobody asks for it (Cluster.TLS)
}

func newAuthority(o ClusterOptions) (*authority, error) {
	config := rest.CopyConfig(o.Config)
	config.QPS = -1 // Roots keeps a pace of its own
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	a := &authority{holder: ca.NewHolder()}
	a.roots = ca.NewRoots(ca.RootsOptions{
		Holder: a.holder, Client: client, Metrics: o.Metrics, Log: o.Log,
		Name: o.RootsName, Scope: o.Scope,
	})
	if o.External != nil {
		if a.external, err = newExternal(o, config, a.holder); err != nil {
			return nil, err
		}
		a.signer = a.external.registration
		if a.external.serving != nil {
			a.serving = a.external.serving
		}
		return a, nil
	}
	a.store = ca.NewStore(a.holder, ca.StoreOptions{
		Client: client, Namespace: o.Names.Namespace, Overlap: o.CA.Max, IgnoreRevoked: o.IgnoreRevoked,
		Metrics: o.Metrics, Log: o.Log, Now: o.Now,
	})
	if !o.IgnoreRevoked {
		a.revoked = ca.NewRoots(ca.RootsOptions{
			Holder: a.holder, Client: client, Metrics: o.Metrics, Log: o.Log, Scope: o.Scope,
			Name: ca.RevokedConfigMap, Key: ca.RevokedKey, Content: (*ca.Authority).Revoked,
		})
	}
	a.serving = ca.NewServing(a.holder, o.Names.ServerNames(), o.Now)
	return a, nil
}

// run does the work of each replica until ctx ends.
func (a *authority) run(ctx context.Context, p *Pipeline) {
	if a.external != nil {
		a.external.run(ctx, p)
		return
	}
	a.store.Run(ctx)
}

// ready returns an error as long as nothing can be signed, or served.
func (a *authority) ready() error {
	if _, _, err := a.holder.Get(); err != nil || a.external == nil || a.external.serving == nil {
		return err
	}
	return a.external.serving.Ready()
}

// lead does the work of the leader until ctx ends.
func (a *authority) lead(ctx context.Context) {
	var running sync.WaitGroup
	if a.store != nil {
		running.Go(func() { a.store.Maintain(ctx) })
	}
	if a.revoked != nil {
		running.Go(func() { a.revoked.Run(ctx) })
	}
	a.roots.Run(ctx)
	running.Wait()
}

// TLS returns the configuration of the secure xDS port. Its certificate is signed by the authority,
// so that proxies verify it by the roots of the mesh, unless the operator has one of their own.
func (c *Cluster) TLS() *tls.Config {
	if c.authority != nil && c.o.Files.Certificate == "" {
		return c.limited(c.authority.serving.TLS())
	}
	config := c.certificates.TLS()
	config.ClientAuth = tls.RequestClientCert
	return c.limited(config)
}

// limited returns the configuration of a server within the operator's limits.
func (c *Cluster) limited(config *tls.Config) *tls.Config {
	if c.o.LimitTLS != nil {
		c.o.LimitTLS(config)
	}
	return config
}

// certificateService returns the certificate service, or nil without an authority.
func (p *Pipeline) certificateService() *ca.Service {
	c := p.o.Cluster
	if c == nil || c.authority == nil {
		return nil
	}
	var agents []ca.Account
	for _, account := range p.o.Config.NodeAccounts {
		namespace, name, _ := strings.Cut(account, "/")
		agents = append(agents, ca.Account{Namespace: namespace, Name: name})
	}
	return ca.NewService(ca.ServiceOptions{
		Holder:        c.authority.holder,
		External:      c.authority.signer,
		Authenticator: callers{proofs{tokens: p.o.Authenticator, domains: p.trustDomains}},
		Certificates:  p.verifier(),
		TTL:           *c.o.CA,
		NodeAgents:    agents,
		Nodes:         nodes{p.Snapshot},
		Workloads:     nodes{p.Snapshot},
		TokensOnly:    p.o.Config.RenewByTokens,
		Metrics:       p.metrics,
		Log:           p.o.Log,
		Now:           c.o.Now,
	})
}

// certificateCalls adds the certificate service to a server.
func (p *Pipeline) certificateCalls(o *serve.Options) {
	service := p.certificateService()
	if service == nil {
		return
	}
	o.Callers = certificateCallers{service, proofs{
		tokens: p.o.Authenticator, certificates: p.verifier(), domains: p.trustDomains,
	}}
	o.Register = func(r grpc.ServiceRegistrar) { securityv1.RegisterIstioCertificateServiceServer(r, service) }
}

// certificateCallers proves callers of the certificate service before their requests are read.
type certificateCallers struct {
	service *ca.Service
	proofs  proofs
}

// Screen implements serve.CallAuthenticator.
func (c certificateCallers) Screen(ctx context.Context, md metadata.MD) error {
	err := c.proofs.Screen(ctx, md)
	if err != nil {
		c.service.Refused()
	}
	return err
}

// Authenticate implements serve.CallAuthenticator.
func (c certificateCallers) Authenticate(
	ctx context.Context, _ metadata.MD,
) (context.Context, serve.Identity, error) {
	proven, id, err := c.service.Identify(ctx)
	return proven, serve.Identity{
		TrustDomain: id.TrustDomain, Namespace: id.Namespace, ServiceAccount: id.ServiceAccount, Pod: id.Pod,
	}, err
}

// nodes looks up where Pods run, and whether they do.
type nodes struct{ snapshot func() *state.Snapshot }

// SameNode implements ca.Nodes.
func (n nodes) SameNode(_ context.Context, agent, other ca.Identity) (bool, error) {
	w := n.snapshot()
	if w == nil {
		return false, errors.New("they are not known yet")
	}
	pod := w.Workload(agent.Namespace, agent.Pod)
	if pod == nil || pod.Node == "" || pod.ServiceAccount != agent.ServiceAccount {
		return false, nil
	}
	for beside := range w.WorkloadsOn(pod.Node) {
		if beside.Namespace == other.Namespace && beside.ServiceAccount == other.ServiceAccount {
			return true, nil
		}
	}
	return false, nil
}

// Runs implements ca.Workloads. A snapshot has no Pods that have ended.
func (n nodes) Runs(id ca.Identity) (bool, error) {
	w := n.snapshot()
	if w == nil {
		return false, errors.New("the Pods are not known yet")
	}
	return w.RunsAs(id.Namespace, id.ServiceAccount), nil
}

// connCredentials are those of a server whose listeners do TLS themselves or not at all. They tell
// the services of which kind a connection is, and which certificate its client has shown.
type connCredentials struct {
	credentials.TransportCredentials
}

func newConnCredentials() connCredentials { return connCredentials{insecure.NewCredentials()} }

// ServerHandshake implements credentials.TransportCredentials.
func (c connCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, ok := raw.(*tls.Conn)
	if !ok {
		return c.TransportCredentials.ServerHandshake(raw)
	}
	if err := conn.Handshake(); err != nil {
		return nil, nil, err
	}
	return conn, credentials.TLSInfo{
		State:          conn.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

// Clone implements credentials.TransportCredentials.
func (c connCredentials) Clone() credentials.TransportCredentials {
	return connCredentials{c.TransportCredentials.Clone()}
}
