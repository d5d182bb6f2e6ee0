package ca

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcertificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
)

// cluster is a signer of Kubernetes that answers at once.
type cluster struct {
	typedcertificatesv1.CertificateSigningRequestInterface

	sign      func(*x509.CertificateRequest) []byte
	condition certificatesv1.RequestConditionType // in place of a certificate
	refuses   error
	seen      certificatesv1.CertificateSigningRequestSpec
	open      int
}

func (c *cluster) Create(
	_ context.Context, r *certificatesv1.CertificateSigningRequest, _ metav1.CreateOptions,
) (*certificatesv1.CertificateSigningRequest, error) {
	if c.refuses != nil {
		return nil, c.refuses
	}
	c.open++
	c.seen = r.Spec
	created := r.DeepCopy()
	created.Name = r.GenerateName + "1"
	return created, nil
}

func (c *cluster) UpdateApproval(
	_ context.Context, _ string, r *certificatesv1.CertificateSigningRequest, _ metav1.UpdateOptions,
) (*certificatesv1.CertificateSigningRequest, error) {
	if c.condition != "" {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: c.condition, Reason: "Policy", Message: "not today",
		})
		return r, nil
	}
	request, err := parseRequest(r.Spec.Request)
	if err != nil {
		return nil, err
	}
	r.Status.Certificate = c.sign(request)
	return r, nil
}

func (c *cluster) Delete(context.Context, string, metav1.DeleteOptions) error {
	c.open--
	return nil
}

// signedBy returns what a root signs for a request, after a change.
func signedBy(t *testing.T, by root, request *x509.CertificateRequest, change func(*x509.Certificate)) []byte {
	t.Helper()
	serial, err := newSerial()
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: start, NotAfter: start.Add(time.Hour),
		URIs: request.URIs, DNSNames: request.DNSNames, PublicKey: request.PublicKey, BasicConstraintsValid: true,
	}
	if change != nil {
		change(template)
	}
	c, err := certify(template, by, template.PublicKey)
	require.NoError(t, err)
	return []byte(encodeCertificate(c))
}

func newRegistration(t *testing.T, c *cluster, top root) *Registration {
	t.Helper()
	return NewRegistration(RegistrationOptions{
		Client: c, Signer: "example.com/mesh", Domain: "example.com",
		Roots: func(string) []byte { return []byte(encodeCertificate(top.certificate)) },
		Log:   quiet, Now: func() time.Time { return start },
	})
}

// What a signer returns is passed on only if it is what was asked for. No request stays.
func TestSignersAreNotBelieved(t *testing.T) {
	top, err := newRoot(start)
	require.NoError(t, err)
	other, err := newRoot(start)
	require.NoError(t, err)
	foreign, err := url.Parse(elsewhere.URI())
	require.NoError(t, err)
	by := func(r root, change func(*x509.Certificate)) func(*x509.CertificateRequest) []byte {
		return func(q *x509.CertificateRequest) []byte { return signedBy(t, r, q, change) }
	}
	for name, test := range map[string]struct {
		cluster cluster
		want    string // the error
	}{
		"right":      {cluster{sign: by(top, nil)}, ""},
		"other root": {cluster{sign: by(other, nil)}, "does not lead to one of the roots"},
		"other identity": {
			cluster{sign: by(top, func(c *x509.Certificate) { c.URIs = []*url.URL{foreign} })},
			"it is for [" + elsewhere.URI(),
		},
		"more names": {
			cluster{sign: by(top, func(c *x509.Certificate) { c.DNSNames = []string{"istiod.istio-system.svc"} })},
			"it is for",
		},
		"other key": {
			cluster{sign: by(top, func(c *x509.Certificate) { c.PublicKey = newKey(t).Public() })}, "for another key",
		},
		"an authority": {cluster{sign: by(top, func(c *x509.Certificate) { c.IsCA = true })}, "that of an authority"},
		"garbage": {
			cluster{sign: func(*x509.CertificateRequest) []byte { return []byte("x") }}, "no certificate in PEM",
		},
		"denied": {cluster{condition: certificatesv1.CertificateDenied}, "Denied: Policy: not today"},
		"failed": {cluster{condition: certificatesv1.CertificateFailed}, "Failed: Policy: not today"},
		"no rights": {
			cluster{refuses: apierrors.NewForbidden(certificatesv1.Resource("x"), "", errors.New("no"))}, "docs/ca.md",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegistration(t, &test.cluster, top)
			q := Request{Identity: bookshop, TTL: time.Hour, Now: start}
			chain, err := r.Sign(t.Context(), request(t, bookshop.URI()), "", q)
			require.Zero(t, test.cluster.open)
			if test.want != "" {
				require.ErrorContains(t, err, test.want)
				return
			}
			require.NoError(t, err)
			all := parseChain(t, chain)
			require.Equal(t, top.certificate.Raw, all[len(all)-1].Raw)
			require.Equal(t, "example.com/mesh", test.cluster.seen.SignerName)
			require.Equal(t, int32(3600), *test.cluster.seen.ExpirationSeconds)
		})
	}
}

// A signer copies what a request names, so that is refused before the signer sees it.
func TestRequestsForSignersNameTheCallerAlone(t *testing.T) {
	top, err := newRoot(start)
	require.NoError(t, err)
	uri, err := url.Parse(bookshop.URI())
	require.NoError(t, err)
	own := []*url.URL{uri}
	for name, test := range map[string]struct {
		request x509.CertificateRequest
		want    error
	}{
		"no name":   {x509.CertificateRequest{}, ErrIdentity},
		"DNS name":  {x509.CertificateRequest{URIs: own, DNSNames: []string{"x"}}, ErrIdentity},
		"another":   {x509.CertificateRequest{URIs: []*url.URL{{Scheme: "spiffe", Host: "x"}}}, ErrIdentity},
		"twice":     {x509.CertificateRequest{URIs: append(own, own...)}, ErrIdentity},
		"a subject": {x509.CertificateRequest{URIs: own, Subject: pkix.Name{CommonName: "admin"}}, ErrRequest},
		"empty, as Istio": {
			x509.CertificateRequest{URIs: own, Subject: pkix.Name{Organization: []string{""}}}, nil,
		},
		"an extension": {
			x509.CertificateRequest{
				URIs: own, ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Value: []byte{0x30, 0}}},
			},
			ErrRequest,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{sign: func(q *x509.CertificateRequest) []byte { return signedBy(t, top, q, nil) }}
			_, err := newRegistration(t, c, top).Sign(t.Context(), requestFor(t, &test.request, newKey(t)), "",
				Request{Identity: bookshop, TTL: time.Hour, Now: start})
			require.ErrorIs(t, err, test.want)
			require.Equal(t, test.want == nil, c.seen.SignerName != "", "what is refused is not submitted")
		})
	}
}

func TestSignersStandBelowTheDomain(t *testing.T) {
	r := &Registration{o: RegistrationOptions{Signer: "example.com/mesh", Domain: "issuers.example.com"}}
	for named, want := range map[string]string{"": "example.com/mesh", "team": "issuers.example.com/team"} {
		name, err := r.signerOf(named)
		require.NoError(t, err)
		require.Equal(t, want, name)
	}
	_, err := (&Registration{o: RegistrationOptions{Signer: "example.com/mesh"}}).signerOf("team")
	require.ErrorIs(t, err, ErrSigner)
	_, err = (&Registration{o: RegistrationOptions{Domain: "example.com"}}).signerOf("")
	require.ErrorIs(t, err, ErrSigner)
}
