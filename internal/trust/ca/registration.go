package ca

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	typedcertificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
)

// RegistrationOptions are what a Registration needs.
type RegistrationOptions struct {
	Client typedcertificatesv1.CertificateSigningRequestInterface
	// Signer signs the requests that name no signer (K8S_SIGNER); empty refuses these.
	Signer string
	// Domain is what stands before the signers that requests name (CERT_SIGNER_DOMAIN). Without
	// one, no request may name a signer.
	Domain string
	// Roots returns the roots of a signer in PEM; nil if they are not known.
	Roots func(signer string) []byte
	Log   *slog.Logger
	Now   func() time.Time
}

// Registration has certificates signed by signers of Kubernetes, by CertificateSigningRequests that
// it creates, approves and removes (EXTERNAL_CA=ISTIOD_RA_KUBERNETES_API). It is safe for
// concurrent use.
type Registration struct {
	o RegistrationOptions
	// places limits how many requests are open at a time; more of them wait for their turn.
	places chan struct{}
}

// maxOpen is how many CertificateSigningRequests may be open at a time.
const maxOpen = 64

// NewRegistration returns a Registration.
func NewRegistration(o RegistrationOptions) *Registration {
	return &Registration{o: o, places: make(chan struct{}, maxOpen)}
}

// More reasons for which there is no certificate.
var (
	// ErrSigner means that the request names a signer that is none of this mesh's.
	ErrSigner = errors.New("no signer of this mesh")
	// ErrUnavailable means that there is none for now.
	ErrUnavailable = errors.New("there is no certificate now")
)

var workloadUsages = []certificatesv1.KeyUsage{
	certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment,
	certificatesv1.UsageServerAuth, certificatesv1.UsageClientAuth,
}

// Sign returns what Authority.Sign does. The signer is the one that the client names; empty if it
// names none. A signer copies what the request names, so that must be the caller's identity, and
// nothing else.
func (r *Registration) Sign(ctx context.Context, csr []byte, signer string, q Request) (chain []string, err error) {
	own := q.Identity.URI()
	request, err := readRequest(csr, q.Identity, []string{own})
	if err != nil {
		return nil, err
	}
	if err := checkPlain(request); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if len(request.URIs) != 1 {
		return nil, fmt.Errorf("%w: the signing request has %d URIs, the caller is %s; want that one alone",
			ErrIdentity, len(request.URIs), own)
	}
	if signer, err = r.signerOf(signer); err != nil {
		return nil, err
	}
	return r.sign(ctx, submission{csr, signer, workloadUsages, q.TTL}, func(leaf *x509.Certificate) error {
		if len(leaf.URIs) != 1 || leaf.URIs[0].String() != own || len(leaf.DNSNames) > 0 {
			return fmt.Errorf("it is for %v %v; want %s", leaf.URIs, leaf.DNSNames, own)
		}
		return sameKey(leaf, request.PublicKey)
	})
}

// signerOf returns the name of a signer in Kubernetes.
func (r *Registration) signerOf(named string) (string, error) {
	switch {
	case named == "" && r.o.Signer == "":
		return "", fmt.Errorf("%w: the request names none, and there is no default; want ISTIO_META_CERT_SIGNER of "+
			"the proxy, or K8S_SIGNER of the control plane", ErrSigner)
	case named == "":
		return r.o.Signer, nil
	case r.o.Domain == "":
		return "", fmt.Errorf("%w: %s %.200q is named, and there is no CERT_SIGNER_DOMAIN; want no %s",
			ErrSigner, signerKey, named, signerKey)
	}
	return r.o.Domain + "/" + named, nil
}

// checkPlain refuses a request with more than names and a key. Agents of Istio send a subject with
// an empty organization.
func checkPlain(request *x509.CertificateRequest) error {
	for _, name := range request.Subject.Names {
		if text, ok := name.Value.(string); !ok || text != "" {
			return fmt.Errorf("the signing request has the subject %.200q, which the signer may copy; want none",
				request.Subject)
		}
	}
	for _, e := range request.Extensions {
		if !e.Id.Equal(subjectAltName) {
			return fmt.Errorf("the signing request has the extension %s, which the signer may copy; want none but "+
				"subjectAltName", e.Id)
		}
	}
	return nil
}

func sameKey(c *x509.Certificate, key crypto.PublicKey) error {
	if !hasKey(c, key) {
		return errors.New("it is for another key than that of the request")
	}
	return nil
}

// sign has a request signed, and checks what comes back: a signer that does something else than it
// was asked for is not passed on.
func (r *Registration) sign(
	ctx context.Context, s submission, accepts func(leaf *x509.Certificate) error,
) (chain []string, err error) {
	roots, err := parseCertificates(r.o.Roots(s.signer))
	if err != nil {
		return nil, fmt.Errorf("the roots of the signer %s are not known (%w); want them in ./%s, or in "+
			"caCertificates of the mesh configuration", s.signer, err, ExternalRootsFile)
	}
	release, err := acquire(ctx, r.places, "too many requests wait for a signer")
	if err != nil {
		return nil, err
	}
	defer release()
	text, err := r.submit(ctx, s)
	if err != nil {
		return nil, err
	}
	all, err := parseCertificates(text)
	if err == nil {
		err = accepts(all[0])
	}
	if err == nil {
		chain, err = r.connect(all, roots)
	}
	if err != nil {
		return nil, fmt.Errorf("the certificate of the signer %s: %w", s.signer, err)
	}
	return chain, nil
}

// connect returns a leaf, the intermediates and the roots, that of the leaf last.
func (r *Registration) connect(all, roots []*x509.Certificate) ([]string, error) {
	leaf, between := all[0], slices.DeleteFunc(slices.Clone(all[1:]), func(c *x509.Certificate) bool {
		return contains(roots, c)
	})
	way, err := shortestWay(leaf, between, roots, r.o.Now())
	if err != nil {
		return nil, fmt.Errorf("it does not lead to one of the roots that are known of it: %w", err)
	}
	if leaf.IsCA {
		return nil, errors.New("it is that of an authority")
	}
	ordered := withLast(roots, way[len(way)-1])
	return encodeCertificates(slices.Concat([]*x509.Certificate{leaf}, between, ordered)), nil
}

// Trusting returns an authority elsewhere, of which only the roots are known. It signs nothing.
func Trusting(roots []byte) (*Authority, error) {
	all, err := parseCertificates(roots)
	if err != nil {
		return nil, err
	}
	return &Authority{keys: parsedKeys{roots: all}, pool: pool(all)}, nil
}

// ExternalRootsFile has the roots of an authority elsewhere, as in Istio.
const ExternalRootsFile = "etc/external-ca-cert/root-cert.pem"

// JoinRoots joins roots in PEM, each once. Parts that cannot be read are left out.
func JoinRoots(parts ...[]byte) []byte {
	var all []*x509.Certificate
	for _, part := range parts {
		some, err := parseCertificates(part)
		if err != nil {
			continue // it was checked where it was read, or is empty
		}
		for _, c := range some {
			if !contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return []byte(strings.Join(encodeCertificates(all), ""))
}
