package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Holder holds the serving certificate in use. It is safe for concurrent use.
type Holder struct {
	mu      sync.Mutex
	pair    *tls.Certificate // nil as long as there is none
	bundle  []byte
	changed chan struct{} // closed and replaced with each change
}

// NewHolder returns a Holder without a certificate.
func NewHolder() *Holder { return &Holder{changed: make(chan struct{})} }

var errNoCertificate = errors.New("there is no serving certificate yet")

// Ready returns nil once there is a certificate.
func (h *Holder) Ready() error {
	_, err := h.get()
	return err
}

// TLS returns the configuration of a server. Each handshake gets the certificate in use at that
// time.
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

// Bundle returns the roots in PEM by which clients verify the server. It is empty without a
// certificate, and if the operator gave no roots. The channel is closed when the certificate
// changes.
func (h *Holder) Bundle() (pem []byte, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bundle, h.changed
}

// Expires returns when the certificate expires; zero without one.
func (h *Holder) Expires() time.Time {
	pair, err := h.get()
	if err != nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}

// set replaces the certificate. An invalid one changes nothing.
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
