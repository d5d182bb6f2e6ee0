package ca

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Verifier proves who clients are by the certificates that they show. It is safe for concurrent
// use if its functions are.
type Verifier struct {
	// Roots returns the roots of the mesh's own authority. Its error is the reason why nobody can
	// be verified by them now. Nil stands for no such authority.
	Roots func() (*x509.CertPool, error)
	// Revoked returns an error if one of the certificates from a leaf to a root of the mesh's own
	// authority counts no more; nil stands for no list of such.
	Revoked func(chain []*x509.Certificate) error
	// Others returns the roots of authorities elsewhere; nil stands for none.
	Others  func() *x509.CertPool
	Domains func() Domains
	Now     func() time.Time
}

// maxShown is how many certificates a client may show: a leaf, and what leads to a root.
const maxShown = 8

// Verify returns the identity that a client's certificates prove, in the mesh's own trust domain,
// and when that proof expires. The first certificate is the client's own, the others lead to a
// root. The error is a gRPC status.
func (v *Verifier) Verify(shown []*x509.Certificate) (id Identity, expires time.Time, err error) {
	pools, err := v.pools()
	if err != nil {
		return Identity{}, time.Time{}, status.Error(codes.Unavailable, err.Error())
	}
	id, err = v.verify(shown, pools)
	if err != nil {
		return Identity{}, time.Time{}, status.Error(codes.Unauthenticated, err.Error())
	}
	return id, shown[0].NotAfter, nil
}

// trust are roots, and what their authorities have revoked; nil is nothing.
type trust struct {
	roots   *x509.CertPool
	revoked func(chain []*x509.Certificate) error
}

// pools returns the roots that there are now, by where they come from. There is an error if there
// are none.
func (v *Verifier) pools() (pools []trust, err error) {
	if v.Roots != nil {
		var own *x509.CertPool
		if own, err = v.Roots(); err == nil {
			pools = append(pools, trust{own, v.Revoked})
		}
	}
	if v.Others != nil {
		pools = append(pools, trust{roots: v.Others()})
	}
	if len(pools) > 0 {
		return pools, nil
	}
	return nil, err
}

// verify accepts a certificate that leads to one of the roots.
func (v *Verifier) verify(shown []*x509.Certificate, pools []trust) (Identity, error) {
	id, err := v.Claimed(shown)
	if err != nil {
		return Identity{}, err
	}
	for _, p := range pools {
		if err = p.verify(shown, v.Now()); err == nil {
			return id, nil
		}
	}
	return Identity{}, fmt.Errorf("the client certificate does not verify: %w", err)
}

// verify accepts a certificate that leads to one of the roots on a way without a revoked one.
func (t trust) verify(shown []*x509.Certificate, now time.Time) error {
	ways, err := shown[0].Verify(x509.VerifyOptions{
		Roots: t.roots, Intermediates: pool(shown[1:]), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil || t.revoked == nil {
		return err
	}
	for _, way := range ways {
		if err = t.revoked(way); err == nil {
			return nil
		}
	}
	return err
}

// Claimed returns the identity that a client's certificates name, which nobody has verified. It
// costs next to nothing.
func (v *Verifier) Claimed(shown []*x509.Certificate) (Identity, error) {
	switch {
	case len(shown) == 0:
		return Identity{}, errors.New("there is no client certificate")
	case len(shown) > maxShown:
		return Identity{}, fmt.Errorf("the client shows %d certificates; want %d at most", len(shown), maxShown)
	case len(shown[0].URIs) != 1:
		return Identity{}, fmt.Errorf("the client certificate has %d URIs; want one SPIFFE id", len(shown[0].URIs))
	}
	id, err := ParseIdentity(shown[0].URIs[0].String())
	if err != nil {
		return Identity{}, fmt.Errorf("the client certificate: %w", err)
	}
	return v.Domains().Adopt(id)
}
