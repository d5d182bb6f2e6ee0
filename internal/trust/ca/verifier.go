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
	// Roots returns the roots in use. Its error is the reason why nobody can be verified now.
	Roots   func() (*x509.CertPool, error)
	Domains func() Domains
	Now     func() time.Time
}

// maxShown is how many certificates a client may show: a leaf, and what leads to a root.
const maxShown = 8

// Verify returns the identity that a client's certificates prove, in the mesh's own trust domain,
// and when that proof expires. The first certificate is the client's own, the others lead to a
// root. The error is a gRPC status.
func (v *Verifier) Verify(shown []*x509.Certificate) (id Identity, expires time.Time, err error) {
	roots, err := v.Roots()
	if err != nil {
		return Identity{}, time.Time{}, status.Error(codes.Unavailable, err.Error())
	}
	id, err = v.verify(shown, roots)
	if err != nil {
		return Identity{}, time.Time{}, status.Error(codes.Unauthenticated, err.Error())
	}
	return id, shown[0].NotAfter, nil
}

func (v *Verifier) verify(shown []*x509.Certificate, roots *x509.CertPool) (Identity, error) {
	id, err := v.Claimed(shown)
	if err != nil {
		return Identity{}, err
	}
	_, err = shown[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: pool(shown[1:]), CurrentTime: v.Now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return Identity{}, fmt.Errorf("the client certificate does not verify: %w", err)
	}
	return id, nil
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
