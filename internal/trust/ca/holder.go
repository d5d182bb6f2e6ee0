package ca

import (
	"crypto/x509"
	"errors"
	"sync"
)

// ErrNotReady means that there is no authority yet.
var ErrNotReady = errors.New("the certificate authority has no valid key yet")

// Holder holds the authority in use. It is safe for concurrent use.
type Holder struct {
	mu        sync.Mutex
	authority *Authority    // nil as long as there is none
	changed   chan struct{} // closed and replaced with each change
}

// NewHolder returns a Holder without an authority.
func NewHolder() *Holder { return &Holder{changed: make(chan struct{})} }

// Get returns the authority in use. The channel is closed when another takes its place.
func (h *Holder) Get() (a *Authority, changed <-chan struct{}, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.authority == nil {
		return nil, h.changed, ErrNotReady
	}
	return h.authority, h.changed, nil
}

// Roots returns what verifies the certificates that the authority in use has signed. There is an
// error if nobody can tell which of them are revoked.
func (h *Holder) Roots() (*x509.CertPool, error) {
	authority, _, err := h.Get()
	if err != nil {
		return nil, err
	}
	if authority.revoked.refused {
		return nil, errNoLists
	}
	return authority.pool, nil
}

// Revoked returns ErrRevoked if the authority in use, or one above it, has revoked one of the
// certificates, which lead from a leaf to a root.
func (h *Holder) Revoked(chain []*x509.Certificate) error {
	authority, _, err := h.Get()
	if err != nil {
		return err
	}
	return authority.revoked.check(chain)
}

// Set replaces the authority.
func (h *Holder) Set(a *Authority) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.authority = a
	close(h.changed)
	h.changed = make(chan struct{})
}
