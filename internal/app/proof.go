package app

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/trust/ca"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// proofs authenticates streams by tokens and by certificates of the mesh. A token is looked at
// first, as it also proves the Pod. If there is none, or it cannot be verified now, the certificate
// that the client has shown counts. One that is refused is not made good by a certificate.
//
// All identities are of the mesh's own trust domain, as it is at that time.
type proofs struct {
	// tokens returns identities without a trust domain.
	tokens       serve.Authenticator
	certificates *ca.Verifier // nil: no certificate is accepted
	domains      func() ca.Domains
}

// Screen implements serve.Authenticator.
func (p proofs) Screen(ctx context.Context, md metadata.MD) error {
	err := p.tokens.Screen(ctx, md)
	shown, _ := ca.PeerCertificates(ctx)
	if _, ok := bearer(md); ok || err == nil || len(shown) == 0 || p.certificates == nil {
		return err
	}
	_, err = p.certificates.Claimed(shown)
	return err
}

// Authenticate implements serve.Authenticator.
func (p proofs) Authenticate(ctx context.Context, md metadata.MD) (serve.Identity, error) {
	id, err := p.tokens.Authenticate(ctx, md)
	if err == nil {
		if id != (serve.Identity{}) {
			id.TrustDomain = p.domains().Own
		}
		return id, nil
	}
	shown, _ := ca.PeerCertificates(ctx)
	_, hasToken := bearer(md)
	if hasToken && status.Code(err) != codes.Unavailable || len(shown) == 0 || p.certificates == nil {
		return serve.Identity{}, err
	}
	proven, expires, cerr := p.certificates.Verify(shown)
	switch {
	case cerr == nil:
		return identityOf(proven, expires), nil
	case hasToken:
		return serve.Identity{}, err
	}
	return serve.Identity{}, cerr
}

// identityOf returns the identity that a certificate proves. It is bound to no Pod.
func identityOf(id ca.Identity, expires time.Time) serve.Identity {
	return serve.Identity{
		TrustDomain: id.TrustDomain, Namespace: id.Namespace, ServiceAccount: id.ServiceAccount, Expires: expires,
	}
}

// callers authenticates callers of the certificate service by their tokens. Anonymous ones, who are
// believed elsewhere, get no certificate.
type callers struct{ tokens serve.Authenticator }

// Authenticate implements ca.Authenticator.
func (c callers) Authenticate(ctx context.Context, md metadata.MD) (ca.Identity, error) {
	id, err := c.tokens.Authenticate(ctx, md)
	if err != nil {
		return ca.Identity{}, err
	}
	if id == (serve.Identity{}) {
		return ca.Identity{}, errors.New("want a service account's token in the metadata authorization: Bearer …")
	}
	return ca.Identity{
		TrustDomain: id.TrustDomain, Namespace: id.Namespace, ServiceAccount: id.ServiceAccount, Pod: id.Pod,
	}, nil
}

// trustDomains returns the present trust domains of the mesh.
func (p *Pipeline) trustDomains() ca.Domains {
	mesh := p.meshConfig()
	return ca.Domains{Own: mesh.TrustDomain, Aliases: mesh.TrustDomainAliases}
}

// verifier returns what verifies certificates of the mesh's own authority, or nil if there is none.
func (p *Pipeline) verifier() *ca.Verifier {
	c := p.o.Cluster
	if c == nil || c.authority == nil {
		return nil
	}
	holder := c.authority.holder
	return &ca.Verifier{Roots: holder.Roots, Revoked: holder.Revoked, Domains: p.trustDomains, Now: c.o.Now}
}

// clientVerifier returns what verifies the certificates of clients that open streams: by the roots
// of the mesh and those of --client-ca. It is nil if there are neither.
func (p *Pipeline) clientVerifier() *ca.Verifier {
	v := p.verifier()
	if p.o.Cluster == nil || p.o.Cluster.clients == nil {
		return v
	}
	if v == nil {
		v = &ca.Verifier{Domains: p.trustDomains, Now: p.o.Cluster.o.Now}
	}
	v.Others = p.o.Cluster.clients.Pool
	return v
}

// authenticator returns what proves who opens a stream, or nil if everybody is believed.
func (p *Pipeline) authenticator() serve.Authenticator {
	if p.o.Authenticator == nil {
		return nil
	}
	return proofs{tokens: p.o.Authenticator, certificates: p.clientVerifier(), domains: p.trustDomains}
}
