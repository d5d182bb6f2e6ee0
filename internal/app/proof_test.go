package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/cluster/tokenreview"
	"github.com/lateen-mesh/lateen/internal/testkit/certs"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// shows is the context of a call over TLS whose client has shown certificates.
func shows(t *testing.T, shown ...*x509.Certificate) context.Context {
	return peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{
		State: tls.ConnectionState{PeerCertificates: shown},
	}})
}

// leafOf returns a certificate of shop/books in a trust domain.
func leafOf(t *testing.T, a *certs.Authority, domain string) *x509.Certificate {
	t.Helper()
	pair := a.Issue(t, "", certs.Identity("spiffe://"+domain+"/ns/shop/sa/books"))
	block, _ := pem.Decode([]byte(pair.Certificate))
	leaf, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return leaf
}

// reviews answers "good", "later" and else refuses.
func reviews(_ context.Context, token string) (tokenreview.Account, error) {
	switch token {
	case "good":
		return tokenreview.Account{Namespace: "shop", ServiceAccount: "books", Pod: "books-1"}, nil
	case "later":
		return tokenreview.Account{}, errors.New("the API server is away")
	}
	return tokenreview.Account{}, tokenreview.ErrRefused
}

func TestCertificateOfTheMeshAuthenticatesAStream(t *testing.T) {
	mesh, other := certs.NewAuthority(t, "mesh"), certs.NewAuthority(t, "other")
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(mesh.PEM)))
	domains := ca.Domains{Own: "new.local", Aliases: []string{"old.local"}}
	a := proofs{
		tokens: ReviewAuthenticator{Review: reviews},
		certificates: &ca.Verifier{
			Roots:   func() (*x509.CertPool, error) { return roots, nil },
			Domains: func() ca.Domains { return domains },
			Now:     time.Now,
		},
		domains: func() ca.Domains { return domains },
	}
	own, old := leafOf(t, mesh, "new.local"), leafOf(t, mesh, "old.local")
	foreign, forged := leafOf(t, mesh, "far.local"), leafOf(t, other, "new.local")
	bound := serve.Identity{TrustDomain: "new.local", Namespace: "shop", ServiceAccount: "books", Pod: "books-1"}
	unbound := serve.Identity{
		TrustDomain: "new.local", Namespace: "shop", ServiceAccount: "books", Expires: own.NotAfter,
	}
	for name, c := range map[string]struct {
		shown    *x509.Certificate
		token    string
		screened bool
		want     serve.Identity
		code     codes.Code
	}{
		"a certificate":                     {own, "", true, unbound, codes.OK},
		"a certificate of an alias":         {old, "", true, unbound, codes.OK},
		"a token beside it proves more":     {own, "good", true, bound, codes.OK},
		"a bad token is not made good":      {own, "bad", true, serve.Identity{}, codes.Unknown},
		"the API server is away":            {own, "later", true, unbound, codes.OK},
		"it is away, and nobody knows more": {forged, "later", true, serve.Identity{}, codes.Unavailable},
		"another trust domain":              {foreign, "", false, serve.Identity{}, codes.Unauthenticated},
		"another root":                      {forged, "", true, serve.Identity{}, codes.Unauthenticated},
		"nothing":                           {nil, "", false, serve.Identity{}, codes.Unknown},
	} {
		ctx, md := shows(t), metadata.MD{}
		if c.shown != nil {
			ctx = shows(t, c.shown)
		}
		if c.token != "" {
			md = metadata.Pairs("authorization", "Bearer "+c.token)
		}
		require.Equal(t, c.screened, a.Screen(ctx, md) == nil, name)
		id, err := a.Authenticate(ctx, md)
		require.Equal(t, c.want, id, name)
		require.Equal(t, c.code, status.Code(err), "%s: %v", name, err)
	}
	a.certificates = nil
	_, err := a.Authenticate(shows(t, own), nil)
	require.ErrorIs(t, err, errNoToken, "there is no authority")
}

// The trust domain is the mesh's present one, for tokens too.
func TestTrustDomainChangesWhileStreamsAreAuthenticated(t *testing.T) {
	domains := ca.Domains{Own: "old.local"}
	a := proofs{
		tokens: ReviewAuthenticator{Review: reviews}, domains: func() ca.Domains { return domains },
	}
	md := metadata.Pairs("authorization", "Bearer good")
	for _, name := range []string{"old.local", "new.local"} {
		domains.Own = name
		id, err := a.Authenticate(t.Context(), md)
		require.NoError(t, err)
		require.Equal(t, "spiffe://"+name+"/ns/shop/sa/books", id.String())
	}
}

func TestWhoIsBelievedStaysAnonymous(t *testing.T) {
	a := proofs{tokens: fixed{}, domains: func() ca.Domains { return ca.Domains{Own: "cluster.local"} }}
	id, err := a.Authenticate(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, serve.Identity{}, id)
}
