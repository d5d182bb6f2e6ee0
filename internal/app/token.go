package app

import (
	"context"
	"errors"
	"net"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/cluster/tokenreview"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// localTrustDomain is the trust domain of a mesh that issues no certificates.
const localTrustDomain = "cluster.local"

// TokenAuthenticator authenticates streams by bearer tokens that Lookup knows: those of the pods of
// a local mesh.
type TokenAuthenticator struct {
	// Lookup returns the namespace, service account and Pod of a token.
	Lookup func(token string) (namespace, serviceAccount, pod string, known bool)
}

// Authenticate implements serve.Authenticator.
func (a TokenAuthenticator) Authenticate(_ context.Context, md metadata.MD) (serve.Identity, error) {
	for _, v := range md.Get("authorization") {
		token, ok := strings.CutPrefix(v, "Bearer ")
		if !ok {
			continue
		}
		if namespace, serviceAccount, pod, known := a.Lookup(token); known {
			return serve.Identity{
				TrustDomain:    localTrustDomain,
				Namespace:      namespace,
				ServiceAccount: serviceAccount,
				Pod:            pod,
			}, nil
		}
	}
	return serve.Identity{}, errors.New("want the token of a pod of this mesh in the metadata authorization: Bearer …")
}

// ReviewAuthenticator authenticates streams by bearer tokens that the Kubernetes API server
// verifies.
type ReviewAuthenticator struct {
	Review func(ctx context.Context, token string) (tokenreview.Account, error)
	// Trusted is the address of a listener that accepts clients without a token, as on a loopback
	// address. Such a client has no identity and is believed, and gets no Secrets. Nil trusts
	// nobody.
	Trusted net.Addr
}

// Authenticate implements serve.Authenticator.
func (a ReviewAuthenticator) Authenticate(ctx context.Context, md metadata.MD) (serve.Identity, error) {
	for _, v := range md.Get("authorization") {
		token, ok := strings.CutPrefix(v, "Bearer ")
		if !ok {
			continue
		}
		account, err := a.Review(ctx, token)
		switch {
		case errors.Is(err, tokenreview.ErrRefused):
			return serve.Identity{}, errors.New(
				"the token is not that of a service account of this cluster, is expired, or is for another audience",
			)
		case err != nil:
			return serve.Identity{}, status.Error(codes.Unavailable, "the token cannot be verified now: "+err.Error())
		}
		return serve.Identity{
			TrustDomain:    localTrustDomain,
			Namespace:      account.Namespace,
			ServiceAccount: account.ServiceAccount,
			Pod:            account.Pod,
			Expires:        account.Expires,
		}, nil
	}
	if a.trusts(ctx) {
		return serve.Identity{}, nil
	}
	return serve.Identity{}, errors.New("want a service account's token in the metadata authorization: Bearer …")
}

func (a ReviewAuthenticator) trusts(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	trusted, ok := a.Trusted.(*net.TCPAddr)
	local, tcp := p.LocalAddr.(*net.TCPAddr)
	return ok && tcp && local.Port == trusted.Port && (trusted.IP.IsUnspecified() || local.IP.Equal(trusted.IP))
}
