package ca

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Authority signs certificates. It is immutable and safe for concurrent use.
type Authority struct {
	keys  parsedKeys
	chain []string // what follows a leaf: intermediates, roots
	pool  *x509.CertPool
	// revoked are certificates that count no more.
	revoked revocations
}

// New returns the authority that has some keys, if they are valid now.
func New(k Keys, now time.Time) (*Authority, error) {
	keys, err := k.parse(now)
	if err != nil {
		return nil, err
	}
	return &Authority{
		keys:  keys,
		chain: append(encodeCertificates(keys.intermediates), encodeCertificates(keys.roots)...),
		pool:  pool(keys.roots),
	}, nil
}

// NewSelfSigned returns an authority with a new root, which is kept nowhere else.
func NewSelfSigned(now time.Time) (*Authority, error) {
	data, err := rotation{}.first(now)
	if err != nil {
		return nil, err
	}
	return New(Keys{Certificate: data[certificateKey], Key: data[privateKey], Roots: data[rootsKey]}, now)
}

// Bundle returns the roots in PEM, that of the authority first.
func (a *Authority) Bundle() []byte {
	roots := encodeCertificates(a.keys.roots)
	slices.Reverse(roots)
	return []byte(strings.Join(roots, ""))
}

// Expires returns when the authority's own certificate expires, or the first one that leads from it
// to its root.
func (a *Authority) Expires() time.Time { return a.keys.expires }

// RootExpires returns when the authority's root expires.
func (a *Authority) RootExpires() time.Time { return a.keys.roots[len(a.keys.roots)-1].NotAfter }

// TTL are the lifetimes of workload certificates.
type TTL struct {
	// Default is that of requests which name none (DEFAULT_WORKLOAD_CERT_TTL).
	Default time.Duration
	// Max is the longest that may be asked for (MAX_WORKLOAD_CERT_TTL).
	Max time.Duration
	// longest cuts what may be asked for; 0 does not.
	longest time.Duration
}

// DefaultTTL are Istio's.
var DefaultTTL = TTL{Default: 24 * time.Hour, Max: 90 * 24 * time.Hour}

// of returns the lifetime for a request that names some seconds.
func (t TTL) of(seconds int64) (time.Duration, error) {
	if seconds <= 0 {
		return min(t.Default, t.Max), nil
	}
	if seconds > int64(t.Max/time.Second) {
		return 0, fmt.Errorf("a lifetime of %d s is asked for; at most %d are granted",
			seconds, int64(t.Max/time.Second))
	}
	asked := time.Duration(seconds) * time.Second
	if t.longest > 0 {
		asked = min(asked, t.longest)
	}
	return asked, nil
}

// Request says whom a certificate is for.
type Request struct {
	// Identity is who the caller has proven to be.
	Identity Identity
	// Aliases are trust domains that the signing request may name in place of the identity's:
	// agents learn the trust domain when their Pod starts.
	Aliases []string
	TTL     time.Duration
	Now     time.Time
}

// names returns the SPIFFE ids that a signing request may have.
func (r Request) names() []string {
	names := []string{r.Identity.URI()}
	for _, alias := range r.Aliases {
		id := r.Identity
		id.TrustDomain = alias
		names = append(names, id.URI())
	}
	return names
}

// The reasons for which a signing request is refused. Other errors are the authority's own.
var (
	// ErrRequest means that the request is malformed.
	ErrRequest = errors.New("invalid signing request")
	// ErrIdentity means that the request asks for a name that is not the caller's.
	ErrIdentity = errors.New("not the caller's identity")
)

// clockSkew is how far the clocks of peers may be behind the authority's: one hour, and five
// minutes to spare. Certificates are valid from that long before they are signed.
const clockSkew = 65 * time.Minute

// Sign returns a certificate for the key of a signing request in PEM, and what leads to the roots:
// the leaf first, the root of this authority last. Other roots of the bundle stand before it.
//
// The certificate names the identity of r. If the signing request names anything else, it is
// refused. Nothing else of the request but its key has an effect.
func (a *Authority) Sign(csr []byte, r Request) (chain []string, err error) {
	if a.keys.signer == nil {
		return nil, fmt.Errorf("%w: it signs elsewhere", ErrNotReady)
	}
	request, err := readRequest(csr, r.Identity, r.names())
	if err != nil {
		return nil, err
	}
	template, err := a.template(r.Now, r.TTL)
	if err != nil {
		return nil, err
	}
	template.URIs = []*url.URL{{
		Scheme: "spiffe", Host: r.Identity.TrustDomain,
		Path: "/ns/" + r.Identity.Namespace + "/sa/" + r.Identity.ServiceAccount,
	}}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	leaf, err := a.issue(template, request.PublicKey)
	if err != nil {
		return nil, err
	}
	return append([]string{encodeCertificate(leaf)}, a.chain...), nil
}

// template returns what all leaves have in common. Without a subject, their names are critical.
func (a *Authority) template(now time.Time, ttl time.Duration) (*x509.Certificate, error) {
	expires := now.Add(ttl)
	if end := a.keys.expires; expires.After(end) {
		expires = end
	}
	if !expires.After(now) {
		return nil, fmt.Errorf("the authority's own certificate has expired at %s", expires.UTC().Format(time.RFC3339))
	}
	serial, err := newSerial()
	return &x509.Certificate{
		SerialNumber:          serial,
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              expires,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		BasicConstraintsValid: true,
	}, err
}

// issue signs a template for a key.
func (a *Authority) issue(template *x509.Certificate, key any) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.keys.certificate, key, a.keys.signer)
	if err != nil {
		return nil, fmt.Errorf("the certificate cannot be signed: %w", err)
	}
	return &x509.Certificate{Raw: der}, nil
}

// newSerial returns a random serial number of 128 bits, which is not 0.
func newSerial() (*big.Int, error) {
	limit := new(big.Int).Lsh(big.NewInt(1), 128)
	n, err := rand.Int(rand.Reader, limit.Sub(limit, big.NewInt(1)))
	if err != nil {
		return nil, err
	}
	return n.Add(n, big.NewInt(1)), nil
}
