package ca

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	securityv1 "istio.io/api/security/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/observe"
)

// Authenticator proves who a caller is by the metadata of the call ("authorization: Bearer …"). Its
// error is shown to the caller, with its code if it is a gRPC status, and else as Unauthenticated.
type Authenticator interface {
	Authenticate(ctx context.Context, md metadata.MD) (Identity, error)
}

// Nodes knows where Pods run.
type Nodes interface {
	// SameNode reports whether a Pod with the identity of other runs on the node of the Pod of
	// agent.
	SameNode(ctx context.Context, agent, other Identity) (bool, error)
}

// Workloads knows what runs in the mesh.
type Workloads interface {
	// Runs reports whether something runs with the identity: a Pod that has not ended, or a
	// workload outside of the cluster.
	Runs(id Identity) (bool, error)
}

// Account is a service account of a namespace.
type Account struct{ Namespace, Name string }

// ServiceOptions are what a Service needs.
type ServiceOptions struct {
	Holder *Holder
	// External signs in place of the Holder's authority; nil for none.
	External      *Registration
	Authenticator Authenticator
	// Certificates verifies the certificates of callers without a token.
	Certificates *Verifier
	TTL          TTL
	// NodeAgents may ask for certificates of others whose Pods run on their node
	// (CA_TRUSTED_NODE_ACCOUNTS). Without Nodes nobody may.
	NodeAgents []Account
	Nodes      Nodes
	// Workloads says for whom certificates are renewed by the one that they have. Without it nobody
	// is asked whether a workload still exists.
	Workloads Workloads
	// TokensOnly accepts no certificate as proof (LATEEN_RENEW_BY_CERTIFICATE=false).
	TokensOnly bool
	Metrics    *observe.Metrics
	Log        *slog.Logger
	Now        func() time.Time
}

// Service is Istio's service for certificates.
type Service struct {
	securityv1.UnimplementedIstioCertificateServiceServer

	o ServiceOptions
	// slots limits the requests that are being checked and signed to what processors can do at a
	// time, so that a burst delays nothing else by more than its share.
	slots    chan struct{}
	logLimit observe.LogLimit
}

// NewService returns a Service.
func NewService(o ServiceOptions) *Service {
	return &Service{o: o, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// Keys of a request's metadata.
const (
	impersonatedKey = "ImpersonatedIdentity"
	signerKey       = "CertSigner"
)

// slotTimeout is how long a request waits for a slot.
const slotTimeout = 10 * time.Second

// CreateCertificate implements securityv1.IstioCertificateServiceServer.
func (s *Service) CreateCertificate(
	ctx context.Context, r *securityv1.IstioCertificateRequest,
) (*securityv1.IstioCertificateResponse, error) {
	caller, ok := ctx.Value(callerKey{}).(proven)
	if !ok { // no server in front has asked who calls
		var err error
		if caller, err = s.prove(ctx); err != nil {
			return nil, s.refuse(ctx, "unproven", status.Code(err), err)
		}
	}
	subject, err := s.subject(ctx, caller.Identity, r.GetMetadata().GetFields()[impersonatedKey].GetStringValue())
	if err != nil {
		s.o.Metrics.CA.Unauthenticated.Inc()
		return nil, s.refuse(ctx, caller.URI(), status.Code(err), err)
	}
	chain, code, err := s.sign(ctx, s.lifetime(caller), subject, r)
	if err != nil {
		return nil, s.refuse(ctx, caller.URI(), code, err)
	}
	s.o.Metrics.CA.Issued.Inc()
	s.o.Log.Debug("a certificate is issued", "caller", caller.URI(), "pod", caller.Pod, "subject", subject.URI())
	return &securityv1.IstioCertificateResponse{CertChain: chain}, nil
}

// proven is a caller with what has proven it.
type proven struct {
	Identity
	// byCertificate is set if that was the certificate that it has.
	byCertificate bool
}

type callerKey struct{}

// Identify proves who calls before the request is read. The context is for CreateCertificate, which
// does not ask again.
func (s *Service) Identify(ctx context.Context) (context.Context, Identity, error) {
	caller, err := s.prove(ctx)
	if err != nil {
		return nil, Identity{}, err
	}
	return context.WithValue(ctx, callerKey{}, caller), caller.Identity, nil
}

// prove counts a request, and returns who calls.
func (s *Service) prove(ctx context.Context) (proven, error) {
	s.o.Metrics.CA.Requests.Inc()
	caller, err := s.caller(ctx)
	if err != nil {
		s.o.Metrics.CA.Unauthenticated.Inc()
	}
	return caller, err
}

// Refused counts a request that was refused before anybody asked who calls.
func (s *Service) Refused() {
	s.o.Metrics.CA.Requests.Inc()
	s.o.Metrics.CA.Unauthenticated.Inc()
}

// maxLogText is how much of an error a log line has: it quotes what the client sent.
const maxLogText = 1 << 10

// refuse logs why there is no certificate, and returns it for the caller.
func (s *Service) refuse(ctx context.Context, caller string, code codes.Code, err error) error {
	address := ""
	if p, ok := peer.FromContext(ctx); ok {
		address = p.Addr.String()
	}
	said := err.Error()
	if known, ok := status.FromError(err); ok {
		said = known.Message()
	}
	if skipped, ok := s.logLimit.Allow(code.String(), s.o.Now()); ok {
		s.o.Log.Warn("no certificate is issued", "caller", caller, "address", address, "code", code.String(),
			"error", observe.Untrusted(said, maxLogText), "lines_left_out", skipped)
	}
	return status.Error(code, said)
}

// caller returns who calls. A token is looked at first, as it also proves the Pod. If there is
// none, or it cannot be verified now, the client's certificate proves it. One that is refused is
// not made good by a certificate.
//
// Nobody is believed in plaintext, where others may have read the token.
func (s *Service) caller(ctx context.Context) (proven, error) {
	shown, secure := PeerCertificates(ctx)
	if !secure {
		return proven{}, status.Error(codes.Unauthenticated, "certificates are issued over TLS only")
	}
	md, _ := metadata.FromIncomingContext(ctx)
	var tokenErr error
	if len(md.Get("authorization")) > 0 {
		id, err := s.o.Authenticator.Authenticate(ctx, md)
		if err == nil {
			return proven{Identity: id}, nil
		}
		if status.Code(err) != codes.Unavailable {
			return proven{}, asStatus(codes.Unauthenticated, err)
		}
		tokenErr = err
	}
	id, err := s.byCertificate(shown)
	switch {
	case err == nil:
		return proven{id, true}, nil
	case tokenErr != nil:
		return proven{}, tokenErr
	}
	return proven{}, asStatus(codes.Unauthenticated, err)
}

// byCertificate returns who has shown a certificate of the mesh. It renews only what still runs:
// whoever has had the key of a workload would else have its identity for as long as the root lives.
func (s *Service) byCertificate(shown []*x509.Certificate) (Identity, error) {
	switch {
	case s.o.TokensOnly:
		return Identity{}, errors.New("want a service account's token in the metadata authorization: Bearer …; " +
			"certificates are not renewed by themselves here (LATEEN_RENEW_BY_CERTIFICATE)")
	case len(shown) == 0:
		return Identity{}, errors.New("want a service account's token in the metadata authorization: Bearer …, " +
			"or a client certificate of this mesh")
	}
	id, _, err := s.o.Certificates.Verify(shown)
	if err != nil || s.o.Workloads == nil {
		return id, err
	}
	runs, err := s.o.Workloads.Runs(id)
	switch {
	case err != nil:
		return Identity{}, status.Errorf(codes.Unavailable, "it is not known what runs as %s: %v", id.URI(), err)
	case !runs:
		return Identity{}, status.Errorf(codes.PermissionDenied, "the client certificate is of %s, and neither a Pod "+
			"nor a WorkloadEntry of the mesh has that service account; want a token", id.URI())
	}
	return id, nil
}

// lifetime returns what a caller may ask for. A certificate as proof gets no more than the default:
// the Pod of whoever has taken its key may be gone before.
func (s *Service) lifetime(c proven) TTL {
	ttl := s.o.TTL
	if c.byCertificate {
		ttl.longest = min(ttl.Default, ttl.Max)
	}
	return ttl
}

// PeerCertificates returns the certificates that the client of a call has shown, and whether its
// connection is over TLS.
func PeerCertificates(ctx context.Context) (shown []*x509.Certificate, secure bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, false
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	return info.State.PeerCertificates, ok
}

// subject returns whom the certificate is for: the caller, or whom a node's agent asks for.
func (s *Service) subject(ctx context.Context, caller Identity, other string) (Identity, error) {
	if other == "" {
		return caller, nil
	}
	id, err := ParseIdentity(other)
	if err == nil {
		id, err = s.o.Certificates.Domains().Adopt(id)
	}
	if err != nil {
		return Identity{}, status.Errorf(codes.InvalidArgument, "%s: %v", impersonatedKey, err)
	}
	if s.o.Nodes == nil || !s.isNodeAgent(caller) {
		return Identity{}, status.Errorf(codes.PermissionDenied, "%s asks for a certificate of %s; only the service "+
			"accounts of CA_TRUSTED_NODE_ACCOUNTS may ask for others", caller.URI(), id.URI())
	}
	if caller.Pod == "" {
		return Identity{}, status.Errorf(codes.PermissionDenied, "%s asks for a certificate of %s without a token "+
			"that is bound to a Pod, so its node is unknown", caller.URI(), id.URI())
	}
	beside, err := s.o.Nodes.SameNode(ctx, caller, id)
	if err != nil {
		return Identity{}, status.Errorf(codes.Unavailable, "the Pods of a node cannot be looked up: %v", err)
	}
	if !beside {
		return Identity{}, status.Errorf(codes.PermissionDenied, "%s asks for a certificate of %s, which has no Pod "+
			"on the node of %s/%s", caller.URI(), id.URI(), caller.Namespace, caller.Pod)
	}
	return id, nil
}

func (s *Service) isNodeAgent(caller Identity) bool {
	for _, a := range s.o.NodeAgents {
		if a == (Account{caller.Namespace, caller.ServiceAccount}) {
			return true
		}
	}
	return false
}

// The values of the label error of citadel_server_csr_sign_err_count, which are Istio's.
const (
	csrError      = "CSR_ERROR"
	ttlError      = "TTL_ERROR"
	notReadyError = "CA_NOT_READY"
	signError     = "CERT_GEN_ERROR"
)

// sign returns a certificate for a subject, or the code of the error.
func (s *Service) sign(
	ctx context.Context, life TTL, subject Identity, r *securityv1.IstioCertificateRequest,
) ([]string, codes.Code, error) {
	fail := func(kind string, code codes.Code, err error) ([]string, codes.Code, error) {
		s.o.Metrics.CA.Failed.WithLabelValues(kind).Inc()
		return nil, code, err
	}
	signer := r.GetMetadata().GetFields()[signerKey].GetStringValue()
	if signer != "" && s.o.External == nil {
		return fail(csrError, codes.InvalidArgument,
			fmt.Errorf("%s %.200q is not supported; want none, this authority signs by itself", signerKey, signer))
	}
	ttl, err := life.of(r.GetValidityDuration())
	if err != nil {
		return fail(ttlError, codes.InvalidArgument, err)
	}
	q := Request{
		Identity: subject, Aliases: s.o.Certificates.Domains().Aliases, TTL: ttl, Now: s.o.Now(),
	}
	var chain []string
	if s.o.External != nil {
		chain, err = s.o.External.Sign(ctx, []byte(r.GetCsr()), signer, q)
	} else {
		chain, err = s.signHere(ctx, []byte(r.GetCsr()), q)
	}
	switch {
	case errors.Is(err, ErrRequest):
		s.o.Metrics.CA.Malformed.Inc()
		return fail(csrError, codes.InvalidArgument, err)
	case errors.Is(err, ErrIdentity):
		s.o.Metrics.CA.Foreign.Inc()
		return fail(csrError, codes.PermissionDenied, err)
	case errors.Is(err, ErrSigner):
		return fail(csrError, codes.InvalidArgument, err)
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrNotReady):
		return fail(notReadyError, codes.Unavailable, err)
	case err != nil:
		return fail(signError, codes.Internal, err)
	}
	return chain, codes.OK, nil
}

// signHere returns a certificate of the Holder's authority.
func (s *Service) signHere(ctx context.Context, csr []byte, q Request) ([]string, error) {
	authority, _, err := s.o.Holder.Get()
	if err != nil {
		return nil, err
	}
	release, err := acquire(ctx, s.slots, "the certificate authority is overloaded")
	if err != nil {
		return nil, err
	}
	defer release()
	return authority.Sign(csr, q)
}

// acquire waits for a slot. The caller releases it. full says what it means that none is free.
func acquire(ctx context.Context, slots chan struct{}, full string) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, full, ctx.Err())
	}
}

// asStatus gives an error a code if it has none.
func asStatus(code codes.Code, err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(code, err.Error())
}
