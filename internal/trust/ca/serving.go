package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"
)

// servingLives is how long the certificate of a server lives. It is renewed after half of that.
const servingLives = 24 * time.Hour

// Serving is the certificate of a server that clients verify by the roots of the mesh. Each replica
// signs its own, in memory. It is safe for concurrent use.
type Serving struct {
	holder *Holder
	names  []string // DNS names
	now    func() time.Time

	mu    sync.Mutex
	by    *Authority
	pair  *tls.Certificate
	renew time.Time
}

// NewServing returns the certificate for some DNS names. It is made when it is first asked for.
func NewServing(h *Holder, names []string, now func() time.Time) *Serving {
	return &Serving{holder: h, names: names, now: now}
}

// TLS returns the configuration of a server with this certificate.
func (s *Serving) TLS() *tls.Config { return serverTLS(s.Certificate) }

// serverTLS returns the configuration of a server that asks for a client's certificate and does not
// need one. The caller verifies it with a Verifier, by the roots in use at that time. There are no
// session tickets: agents keep no sessions, and each ticket is a write of its own.
func serverTLS(certificate func() (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS12,
		NextProtos:             []string{"h2", "http/1.1"},
		ClientAuth:             tls.RequestClientCert,
		SessionTicketsDisabled: true,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
	}
}

// Certificate returns the certificate in use. It makes a new one if that is due, or signed by
// another authority than the one in use. If that cannot sign any more, the last certificate stays:
// clients then say that it has expired, and not that the handshake has failed.
func (s *Serving) Certificate() (*tls.Certificate, error) {
	authority, _, err := s.holder.Get()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.by == authority && now.Before(s.renew) {
		return s.pair, nil
	}
	pair, err := authority.serve(s.names, now)
	if err != nil && s.pair != nil {
		return s.pair, nil
	}
	if err != nil {
		return nil, err
	}
	s.by, s.pair = authority, pair
	s.renew = now.Add(pair.Leaf.NotAfter.Sub(now) / 2)
	return pair, nil
}

// serve returns a new key and a certificate of a server for it.
func (a *Authority) serve(names []string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := a.template(now, servingLives)
	if err != nil {
		return nil, err
	}
	template.DNSNames = names
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	issued, err := a.issue(template, key.Public())
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(issued.Raw)
	if err != nil {
		return nil, err
	}
	pair := &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
	for _, c := range a.keys.intermediates {
		pair.Certificate = append(pair.Certificate, c.Raw)
	}
	return pair, nil
}
