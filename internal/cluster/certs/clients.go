package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
)

// Clients say which clients prove themselves to a server by certificate. The zero value asks for
// none.
type Clients struct {
	// CA is a file with the roots of their certificates, in PEM.
	CA string
	// Names are the common names that are let in; all of the roots' if there are none.
	Names []string
	// Required refuses clients without a certificate. Otherwise only a wrong one is refused.
	Required bool
}

// The reasons why a client is refused.
const (
	NoCertificate    = "no_certificate"
	UnknownAuthority = "unverified"
	UnknownName      = "name"
)

// ClientCheck verifies the client certificates of a server. It is safe for concurrent use.
type ClientCheck struct {
	Clients
	*Roots  // nil without a file
	refused func(reason string)
}

// NewClientCheck reads the roots. It calls refused for each client that is refused.
func NewClientCheck(c Clients, refused func(reason string)) (*ClientCheck, error) {
	check := &ClientCheck{Clients: c, refused: refused}
	if c.CA == "" {
		return check, nil
	}
	var err error
	check.Roots, err = NewRoots(c.CA)
	return check, err
}

// On makes a server verify its clients.
func (c *ClientCheck) On(server *tls.Config) {
	if c.CA == "" {
		return
	}
	// Roots and reasons are ours, because the roots change while the server runs.
	server.ClientAuth = tls.RequestClientCert
	server.VerifyConnection = func(s tls.ConnectionState) error {
		reason, err := c.verify(s.PeerCertificates)
		if err != nil {
			c.refused(reason)
		}
		return err
	}
}

// verify returns why a client with these certificates is refused, or no error.
func (c *ClientCheck) verify(chain []*x509.Certificate) (reason string, err error) {
	if len(chain) == 0 {
		if c.Required {
			return NoCertificate, fmt.Errorf("the client has no certificate; want one of an authority of %s", c.CA)
		}
		return "", nil
	}
	between := x509.NewCertPool()
	for _, link := range chain[1:] {
		between.AddCert(link)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         c.Pool(),
		Intermediates: between,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return UnknownAuthority, fmt.Errorf("the client's certificate: %w; want one of an authority of %s", err, c.CA)
	}
	if name := chain[0].Subject.CommonName; len(c.Names) > 0 && !slices.Contains(c.Names, name) {
		return UnknownName, fmt.Errorf("the client's certificate is for %.64q; want one for %q", name, c.Names)
	}
	return "", nil
}
