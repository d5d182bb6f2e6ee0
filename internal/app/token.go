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

// TokenAuthenticator authenticates streams by bearer tokens that Lookup knows: those of the pods of
// a local mesh. The identities have no trust domain: that is the mesh's own.
type TokenAuthenticator struct {
	// Lookup returns the namespace, service account and Pod of a token.
	Lookup func(token string) (namespace, serviceAccount, pod string, known bool)
}

// Screen implements serve.Authenticator.
func (a TokenAuthenticator) Screen(ctx context.Context, md metadata.MD) error {
	_, err := a.Authenticate(ctx, md) // which asks nobody
	return err
}

// Authenticate implements serve.Authenticator.
func (a TokenAuthenticator) Authenticate(_ context.Context, md metadata.MD) (serve.Identity, error) {
	if token, ok := bearer(md); ok {
		if namespace, serviceAccount, pod, known := a.Lookup(token); known {
			return serve.Identity{
				Namespace:      namespace,
				ServiceAccount: serviceAccount,
				Pod:            pod,
			}, nil
		}
	}
	return serve.Identity{}, errors.New("want the token of a pod of this mesh in the metadata authorization: Bearer …")
}

// ReviewAuthenticator authenticates streams by bearer tokens that the Kubernetes API server
// verifies. The identities have no trust domain: that is the mesh's own.
type ReviewAuthenticator struct {
	Review func(ctx context.Context, token string) (tokenreview.Account, error)
	// Check returns an error for a token of which the API server need not be asked. It asks nobody
	// and may be nil.
	Check func(token string) error
	// Plaintext is the listener whose connections are not encrypted; zero if there is none.
	Plaintext PlaintextListener
}

// PlaintextListener says how the clients of a listener without TLS prove who they are.
type PlaintextListener struct {
	Address net.Addr
	// TrustsAll accepts clients without a token, as on a loopback address. Such a client has no
	// identity and is believed, and gets no Secrets.
	TrustsAll bool
	// RefusesTokens is set where others could read a token on its way.
	RefusesTokens bool
}

var (
	errNoToken        = errors.New("want a service account's token in the metadata authorization: Bearer …")
	errPlaintextToken = errors.New("a token came in plaintext, where others can read it; want TLS, at " +
		"--secure-xds-address, or --insecure-plaintext if the network is to be trusted with tokens")
	errBadToken = errors.New("the token is not that of a service account of this cluster, is expired, or is for " +
		"another audience")
)

// Screen implements serve.Authenticator.
func (a ReviewAuthenticator) Screen(ctx context.Context, md metadata.MD) error {
	token, ok := bearer(md)
	switch plaintext := a.Plaintext.accepted(ctx); {
	case !ok && plaintext && a.Plaintext.TrustsAll:
		return nil
	case !ok:
		return errNoToken
	case plaintext && a.Plaintext.RefusesTokens:
		return errPlaintextToken
	case a.Check == nil:
		return nil
	}
	return a.Check(token)
}

// Authenticate implements serve.Authenticator.
func (a ReviewAuthenticator) Authenticate(ctx context.Context, md metadata.MD) (serve.Identity, error) {
	if err := a.Screen(ctx, md); err != nil {
		return serve.Identity{}, err
	}
	token, ok := bearer(md)
	if !ok {
		return serve.Identity{}, nil // Screen let it pass, so the listener trusts all
	}
	account, err := a.Review(ctx, token)
	switch {
	case errors.Is(err, tokenreview.ErrRefused):
		return serve.Identity{}, errBadToken
	case err != nil:
		return serve.Identity{}, status.Error(codes.Unavailable, "the token cannot be verified now: "+err.Error())
	}
	return serve.Identity{
		Namespace:      account.Namespace,
		ServiceAccount: account.ServiceAccount,
		Pod:            account.Pod,
		Expires:        account.Expires,
	}, nil
}

// bearer returns the first bearer token of a call.
func bearer(md metadata.MD) (token string, ok bool) {
	for _, v := range md.Get("authorization") {
		if token, ok := strings.CutPrefix(v, "Bearer "); ok {
			return token, true
		}
	}
	return "", false
}

// accepted reports whether the listener accepted the connection of a call.
func (l PlaintextListener) accepted(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	own, ok := l.Address.(*net.TCPAddr)
	local, tcp := p.LocalAddr.(*net.TCPAddr)
	return ok && tcp && local.Port == own.Port && (own.IP.IsUnspecified() || local.IP.Equal(own.IP))
}
