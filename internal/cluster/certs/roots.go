package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
)

// Roots are the certificates of authorities in a file, which is read again when it changes. It is
// safe for concurrent use. Nil has none.
type Roots struct {
	path string
	pool atomic.Pointer[x509.CertPool]
}

// NewRoots reads the file.
func NewRoots(path string) (*Roots, error) {
	r := &Roots{path: path}
	_, err := r.reload(nil)
	return r, err
}

// Pool returns the present roots.
func (r *Roots) Pool() *x509.CertPool { return r.pool.Load() }

// Run rereads the file until ctx ends. If it is invalid, the last valid roots stay in use.
func (r *Roots) Run(ctx context.Context, log *slog.Logger) {
	if r == nil {
		return
	}
	follow(ctx, log, "the authorities of clients cannot be read; the last ones stay in force", r.reload)
}

// reload reads the roots if they differ from last, and returns their content.
func (r *Roots) reload(last []byte) (now []byte, err error) {
	if now, err = os.ReadFile(r.path); err != nil {
		return last, err
	}
	if bytes.Equal(now, last) {
		return now, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(now) {
		return last, fmt.Errorf("%s has no certificate in PEM", r.path)
	}
	r.pool.Store(roots)
	return now, nil
}
