package ca

import (
	"crypto/x509"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestCertificateProvesItsIdentityUntilItExpires(t *testing.T) {
	a := selfSigned(t, start)
	chain, err := a.Sign(request(t), Request{Identity: bookshop, TTL: time.Hour, Now: start})
	require.NoError(t, err)
	v := verifierOf(a, start)
	id, expires, err := v.Verify(parseChain(t, chain))
	require.NoError(t, err)
	require.Equal(t, bookshop, id)
	require.Equal(t, start.Add(time.Hour), expires)

	v.Domains = func() Domains { return Domains{Own: "new.local", Aliases: []string{trustDomain}} }
	id, _, err = v.Verify(parseChain(t, chain))
	require.NoError(t, err)
	require.Equal(t, "spiffe://new.local/ns/shop/sa/books", id.URI(), "an alias is equivalent")
}

func TestVerifierRefusesWithoutVerifying(t *testing.T) {
	spiffe := func(text string) *x509.Certificate {
		uri, err := url.Parse(text)
		require.NoError(t, err)
		return &x509.Certificate{URIs: []*url.URL{uri}}
	}
	good := spiffe(bookshop.URI())
	many := make([]*x509.Certificate, maxShown+1)
	for i := range many {
		many[i] = good
	}
	v := verifierOf(selfSigned(t, start), start)
	for want, shown := range map[string][]*x509.Certificate{
		"no client certificate":      nil,
		"want 8 at most":             many,
		"has 0 URIs":                 {{}},
		"has 2 URIs":                 {{URIs: append(good.URIs, good.URIs...)}},
		"is not of the form":         {spiffe("spiffe://cluster.local/shop/books")},
		"of another trust domain":    {spiffe("spiffe://other.local/ns/shop/sa/books")},
		"want lower-case letters":    {spiffe("spiffe://Cluster.local/ns/shop/sa/books")},
		"not the name of a namespac": {spiffe("spiffe://cluster.local/ns/Shop/sa/books")},
	} {
		_, err := v.Claimed(shown)
		require.ErrorContains(t, err, want)
		_, _, err = v.Verify(shown)
		require.Equal(t, codes.Unauthenticated, status.Code(err))
	}
	id, err := v.Claimed([]*x509.Certificate{good})
	require.NoError(t, err)
	require.Equal(t, bookshop, id)

	v.Roots = NewHolder().Roots
	_, _, err = v.Verify([]*x509.Certificate{good})
	require.Equal(t, codes.Unavailable, status.Code(err), "nobody can tell yet")
}

// Roots of authorities elsewhere count as those of the mesh's own, by the same rules of trust
// domains, whether there is an own authority or not.
func TestCertificatesOfAuthoritiesElsewhereVerify(t *testing.T) {
	own, other, third := selfSigned(t, start), selfSigned(t, start), selfSigned(t, start)
	shownBy := func(a *Authority, domain string) []*x509.Certificate {
		id := bookshop
		id.TrustDomain = domain
		chain, err := a.Sign(request(t), Request{Identity: id, TTL: time.Hour, Now: start})
		require.NoError(t, err)
		return parseChain(t, chain)
	}
	v := verifierOf(own, start)
	v.Others = func() *x509.CertPool { return other.pool }
	for name, roots := range map[string]func() (*x509.CertPool, error){
		"beside an own authority":       v.Roots,
		"without one":                   nil,
		"while there is no own one yet": NewHolder().Roots,
	} {
		t.Run(name, func(t *testing.T) {
			v.Roots = roots
			id, _, err := v.Verify(shownBy(other, trustDomain))
			require.NoError(t, err)
			require.Equal(t, bookshop, id)
			for _, shown := range [][]*x509.Certificate{shownBy(third, trustDomain), shownBy(other, "other.local")} {
				_, _, err = v.Verify(shown)
				require.Equal(t, codes.Unauthenticated, status.Code(err))
			}
		})
	}
	v.Roots = verifierOf(own, start).Roots
	id, _, err := v.Verify(shownBy(own, trustDomain))
	require.NoError(t, err)
	require.Equal(t, bookshop, id)
}
