package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Holder holds the serving certificate that is in force. It is safe for concurrent use.
type Holder struct {
	mu      sync.Mutex
	pair    *tls.Certificate // nil as long as there is none
	bundle  []byte
	changed chan struct{} // closed and replaced with each change
}

// NewHolder is a Holder without a certificate.
func NewHolder() *Holder { return &Holder{changed: make(chan struct{})} }

var errNoCertificate = errors.New("there is no serving certificate yet")

// Ready is nil once there is a certificate.
func (h *Holder) Ready() error {
	_, err := h.get()
	return err
}

// TLS is the configuration of a server that serves the certificate that is in force at each
// handshake.
func (h *Holder) TLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return h.get() },
	}
}

func (h *Holder) get() (*tls.Certificate, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pair == nil {
		return nil, errNoCertificate
	}
	return h.pair, nil
}

// Bundle are the roots, in PEM, by which clients know the server. It is empty as long as there is
// none, and when the operator has given a certificate without its roots. Changed is closed when
// there is something new.
func (h *Holder) Bundle() (pem []byte, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bundle, h.changed
}

// Expires is when the certificate ends; zero without one.
func (h *Holder) Expires() time.Time {
	pair, err := h.get()
	if err != nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}

// set puts another certificate in force. One that is of no use leaves things as they were.
func (h *Holder) set(certificate, key, bundle []byte) error {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	if len(bundle) > 0 && !x509.NewCertPool().AppendCertsFromPEM(bundle) {
		return fmt.Errorf("the CA bundle has no certificate in PEM")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pair, h.bundle = &pair, bundle
	close(h.changed)
	h.changed = make(chan struct{})
	return nil
}
