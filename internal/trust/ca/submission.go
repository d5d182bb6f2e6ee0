package ca

import (
	"context"
	"encoding/asn1"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

var subjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17} // RFC 5280, 4.2.1.6

// submission is what a signer of Kubernetes is asked for.
type submission struct {
	csr    []byte
	signer string
	usages []certificatesv1.KeyUsage
	ttl    time.Duration
}

const (
	// signTimeout is how long a signer may take.
	signTimeout = time.Minute
	// removeTimeout is how long it may take to remove a request.
	removeTimeout = 10 * time.Second
	// shortestTTL is the shortest life that Kubernetes lets a request name.
	shortestTTL = 10 * time.Minute
)

// submit creates a CertificateSigningRequest, approves it, waits for the certificate and removes
// the request. It returns the certificate in PEM, which nobody has checked.
func (r *Registration) submit(ctx context.Context, s submission) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	seconds := int32(max(s.ttl, shortestTTL) / time.Second) //nolint:gosec // TTL.Max is some months
	open, err := r.o.Client.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-workload-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: s.csr, SignerName: s.signer, Usages: s.usages, ExpirationSeconds: &seconds,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, unavailable("a CertificateSigningRequest cannot be created", err)
	}
	defer r.remove(ctx, open.Name)
	open.Status.Conditions = append(open.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "CallerIsProven",
		Message: "Lateen has checked that the request names its caller and nothing else",
	})
	approved, err := r.o.Client.UpdateApproval(ctx, open.Name, open, metav1.UpdateOptions{})
	if err != nil {
		return nil, unavailable("the CertificateSigningRequest "+open.Name+" cannot be approved", err)
	}
	return r.awaitCertificate(ctx, approved)
}

// unavailable returns an error of the API server for the caller.
func unavailable(what string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: %s: %w; want the rights of a registration authority (docs/ca.md)",
			ErrUnavailable, what, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}

// awaitCertificate waits until a request has its certificate, or is denied or failed.
func (r *Registration) awaitCertificate(
	ctx context.Context, open *certificatesv1.CertificateSigningRequest,
) ([]byte, error) {
	for {
		if text, err := outcome(open); text != nil || err != nil {
			return text, err
		}
		next, err := r.nextState(ctx, open)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: nobody signs the CertificateSigningRequest of %s in time; is there a "+
				"controller for this signer?", ErrUnavailable, open.Spec.SignerName)
		case err != nil:
			return nil, unavailable("the CertificateSigningRequest "+open.Name+" cannot be watched", err)
		}
		open = next
	}
}

// outcome returns the certificate of a request, or why there is none; nothing as long as it is
// open.
func outcome(open *certificatesv1.CertificateSigningRequest) ([]byte, error) {
	for _, c := range open.Status.Conditions {
		if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
			return nil, fmt.Errorf("the signer %s: %s: %s: %.400s", open.Spec.SignerName, c.Type, c.Reason, c.Message)
		}
	}
	if len(open.Status.Certificate) > 0 {
		return open.Status.Certificate, nil
	}
	return nil, nil
}

var errRemoved = errors.New("somebody has removed it")

// nextState waits for a change of a request. If the watch ends, it reads the request instead, and
// the caller watches again.
func (r *Registration) nextState(
	ctx context.Context, open *certificatesv1.CertificateSigningRequest,
) (*certificatesv1.CertificateSigningRequest, error) {
	watch, err := r.o.Client.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, open.Name).String(),
		ResourceVersion: open.ResourceVersion,
	})
	if err != nil {
		return nil, err
	}
	defer watch.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case event, ok := <-watch.ResultChan():
		state, is := event.Object.(*certificatesv1.CertificateSigningRequest)
		switch {
		case !ok || !is: // the watch has ended
			return r.o.Client.Get(ctx, open.Name, metav1.GetOptions{})
		case event.Type == "DELETED":
			return nil, errRemoved
		}
		return state, nil
	}
}

// remove removes a request. One that stays is removed by Kubernetes itself after an hour.
func (r *Registration) remove(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if err := r.o.Client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		r.o.Log.Warn("a CertificateSigningRequest is not removed", "name", name, "error", err)
	}
}
