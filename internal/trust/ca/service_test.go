package ca

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	securityv1 "istio.io/api/security/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/observe"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func newMetrics(now time.Time) *observe.Metrics {
	return observe.New(observe.Build{Start: now, Now: func() time.Time { return now }})
}

// valueOf returns the value of a counter or a gauge.
func valueOf(t *testing.T, c prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	require.NoError(t, c.Write(&m))
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

// tokens are those that are known.
type tokens map[string]Identity

var errReviewDown = status.Error(codes.Unavailable, "the token cannot be verified now")

func (k tokens) Authenticate(_ context.Context, md metadata.MD) (Identity, error) {
	token := md.Get("authorization")[0]
	if token == "Bearer later" {
		return Identity{}, errReviewDown
	}
	if id, ok := k[token]; ok {
		return id, nil
	}
	return Identity{}, errors.New("the token is not known")
}

// nodes are the identities beside each agent's Pod.
type nodes map[string][]Identity

func (n nodes) SameNode(_ context.Context, agent, other Identity) (bool, error) {
	for _, id := range n[agent.Pod] {
		if id == other {
			return true, nil
		}
	}
	return false, nil
}

var (
	unbound   = Identity{TrustDomain: trustDomain, Namespace: "istio-system", ServiceAccount: "ztunnel"}
	agent     = Identity{unbound.TrustDomain, unbound.Namespace, unbound.ServiceAccount, "ztunnel-1"}
	elsewhere = Identity{TrustDomain: trustDomain, Namespace: "bank", ServiceAccount: "vault"}
)

// rig is a Service behind TLS.
type rig struct {
	authority *Authority
	service   *Service
	metrics   *observe.Metrics
	address   string
	now       time.Time
	domains   Domains
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{now: time.Now(), domains: Domains{Own: trustDomain}}
	r.authority, r.metrics = selfSigned(t, r.now), newMetrics(r.now)
	holder := NewHolder()
	holder.Set(r.authority)
	r.service = NewService(ServiceOptions{
		Holder: holder,
		Authenticator: tokens{
			"Bearer books": bookshop, "Bearer agent": agent, "Bearer unbound": unbound,
		},
		Certificates: &Verifier{Roots: holder.Roots, Domains: func() Domains { return r.domains }, Now: time.Now},
		TTL:          DefaultTTL,
		NodeAgents:   []Account{{"istio-system", "ztunnel"}},
		Nodes:        nodes{agent.Pod: {bookshop}},
		Metrics:      r.metrics, Log: quiet, Now: time.Now,
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.address = l.Addr().String()
	serving := NewServing(holder, []string{"istiod.istio-system.svc"}, time.Now)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(serving.TLS())))
	securityv1.RegisterIstioCertificateServiceServer(server, r.service)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return r
}

// ask asks for a certificate, as a client that has only the roots of the mesh.
func (r *rig) ask(t *testing.T, token string, request *securityv1.IstioCertificateRequest,
	own ...tls.Certificate,
) ([]string, error) {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(r.authority.Bundle()))
	conn, err := grpc.NewClient(r.address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: roots, ServerName: "istiod.istio-system.svc", Certificates: own, MinVersion: tls.VersionTLS12,
	})))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	ctx := t.Context()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	response, err := securityv1.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx, request)
	return response.GetCertChain(), err
}

func plain(t *testing.T, uris ...string) *securityv1.IstioCertificateRequest {
	return &securityv1.IstioCertificateRequest{Csr: string(request(t, uris...))}
}

func with(t *testing.T, key, value string) *securityv1.IstioCertificateRequest {
	r := plain(t)
	r.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{key: structpb.NewStringValue(value)}}
	return r
}

// certificateOf returns a client certificate with the identity.
func (r *rig) certificateOf(t *testing.T, id Identity) tls.Certificate {
	t.Helper()
	key := newKey(t)
	chain, err := r.authority.Sign(requestFor(t, &x509.CertificateRequest{}, key),
		Request{Identity: id, TTL: time.Hour, Now: r.now})
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{parseChain(t, chain)[0].Raw}, PrivateKey: key}
}

func TestCertificatesAreIssuedToWhoProvesAnIdentity(t *testing.T) {
	r := newRig(t)
	named := func(chain []string, err error) string {
		require.NoError(t, err)
		return parseChain(t, chain)[0].URIs[0].String()
	}
	books := r.certificateOf(t, bookshop)
	require.Equal(t, bookshop.URI(), named(r.ask(t, "books", plain(t, bookshop.URI()))))
	require.Equal(t, bookshop.URI(), named(r.ask(t, "", plain(t, bookshop.URI()), books)))
	require.Equal(t, bookshop.URI(), named(r.ask(t, "later", plain(t), books)), "the API server is away")
	require.Equal(t, agent.URI(), named(r.ask(t, "agent", plain(t))))
	require.Equal(t, bookshop.URI(), named(r.ask(t, "agent", with(t, impersonatedKey, bookshop.URI()))))
	require.InDelta(t, 5, valueOf(t, r.metrics.CA.Issued), 0)
	require.InDelta(t, 5, valueOf(t, r.metrics.CA.Requests), 0)

	hour := plain(t)
	hour.ValidityDuration = 3600
	chain, err := r.ask(t, "books", hour)
	require.NoError(t, err)
	require.WithinDuration(t, r.now.Add(time.Hour), parseChain(t, chain)[0].NotAfter, time.Minute)
}

// A certificate of the former trust domain, and agents that still name it, get one of the new.
func TestCertificatesOutliveAChangeOfTheTrustDomain(t *testing.T) {
	r := newRig(t)
	books := r.certificateOf(t, bookshop)
	r.domains = Domains{Own: "new.local", Aliases: []string{trustDomain}}
	chain, err := r.ask(t, "", plain(t, bookshop.URI()), books)
	require.NoError(t, err)
	require.Equal(t, "spiffe://new.local/ns/shop/sa/books", parseChain(t, chain)[0].URIs[0].String())

	r.domains = Domains{Own: "new.local"}
	_, err = r.ask(t, "", plain(t, bookshop.URI()), books)
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	require.ErrorContains(t, err, "trustDomainAliases")
}

// running are the identities that something runs with.
type running map[Identity]bool

func (r running) Runs(id Identity) (bool, error) {
	if r == nil {
		return false, errors.New("nobody knows yet")
	}
	return r[id], nil
}

// Whoever has had a workload's key once has its identity no longer than the workload runs.
func TestCertificatesAreRenewedWhileTheirWorkloadRuns(t *testing.T) {
	r := newRig(t)
	books := r.certificateOf(t, bookshop)
	refused := func(code codes.Code, text, token string) {
		t.Helper()
		_, err := r.ask(t, token, plain(t), books)
		require.Equal(t, code, status.Code(err), err)
		require.ErrorContains(t, err, text)
	}
	r.service.o.Workloads = running{bookshop: true}
	week := plain(t)
	week.ValidityDuration = 7 * 24 * 3600
	chain, err := r.ask(t, "", week, books)
	require.NoError(t, err)
	require.WithinDuration(t, r.now.Add(DefaultTTL.Default), parseChain(t, chain)[0].NotAfter, time.Minute,
		"no longer than the default life")
	chain, err = r.ask(t, "books", week, books)
	require.NoError(t, err)
	require.WithinDuration(t, r.now.Add(7*24*time.Hour), parseChain(t, chain)[0].NotAfter, time.Minute,
		"a token proves the Pod")

	r.service.o.Workloads = running{}
	refused(codes.PermissionDenied, "neither a Pod nor a WorkloadEntry of the mesh has that service account", "")
	refused(codes.Unavailable, "cannot be verified now", "later")
	_, err = r.ask(t, "books", plain(t), books)
	require.NoError(t, err, "a token needs no Pod in the snapshot")
	r.service.o.Workloads = running(nil)
	refused(codes.Unavailable, "nobody knows yet", "")
	r.service.o.Workloads, r.service.o.TokensOnly = running{bookshop: true}, true
	refused(codes.Unauthenticated, "LATEEN_RENEW_BY_CERTIFICATE", "")
}

// The log has few lines of refused callers. Whom a server in front has identified is not proven
// again.
func TestRefusedCallersFillNoLog(t *testing.T) {
	r := newRig(t)
	var log strings.Builder
	r.service.o.Log = slog.New(slog.NewTextHandler(&log, nil))
	for range 100 {
		_, err := r.service.CreateCertificate(t.Context(), plain(t))
		require.Equal(t, codes.Unauthenticated, status.Code(err))
	}
	require.Equal(t, 10, strings.Count(log.String(), "\n"))
	ctx := context.WithValue(t.Context(), callerKey{}, proven{Identity: bookshop})
	_, err := r.service.CreateCertificate(ctx, plain(t))
	require.NoError(t, err)
	require.InDelta(t, 100, valueOf(t, r.metrics.CA.Requests), 0)
}

func TestRefusalsSayWhy(t *testing.T) {
	r := newRig(t)
	long := plain(t)
	long.ValidityDuration = 91 * 24 * 3600
	books := r.certificateOf(t, bookshop)
	for _, c := range []struct {
		token   string
		request *securityv1.IstioCertificateRequest
		own     []tls.Certificate
		code    codes.Code
		text    string
	}{
		{"", plain(t), nil, codes.Unauthenticated, "want a service account's token"},
		{"forged", plain(t), nil, codes.Unauthenticated, "the token is not known"},
		{"forged", plain(t), []tls.Certificate{books}, codes.Unauthenticated, "the token is not known"},
		{"later", plain(t), nil, codes.Unavailable, "cannot be verified now"},
		{"books", plain(t, elsewhere.URI()), nil, codes.PermissionDenied, elsewhere.URI()},
		{"books", &securityv1.IstioCertificateRequest{Csr: "x"}, nil, codes.InvalidArgument, "not in PEM"},
		{"books", long, nil, codes.InvalidArgument, "at most 7776000"},
		{"books", with(t, signerKey, "acme"), nil, codes.InvalidArgument, `CertSigner "acme" is not supported`},
		{"books", with(t, impersonatedKey, elsewhere.URI()), nil, codes.PermissionDenied, "CA_TRUSTED_NODE_ACCOUNTS"},
		{"agent", with(t, impersonatedKey, elsewhere.URI()), nil, codes.PermissionDenied, "no Pod on the node"},
		{"unbound", with(t, impersonatedKey, bookshop.URI()), nil, codes.PermissionDenied, "bound to a Pod"},
		{
			"agent", with(t, impersonatedKey, "spiffe://other.local/ns/shop/sa/books"), nil,
			codes.InvalidArgument, "trustDomainAliases",
		},
		{"agent", with(t, impersonatedKey, "root"), nil, codes.InvalidArgument, "is not of the form"},
	} {
		_, err := r.ask(t, c.token, c.request, c.own...)
		require.Equal(t, c.code, status.Code(err), "%s: %v", c.text, err)
		require.ErrorContains(t, err, c.text)
	}
	require.Zero(t, valueOf(t, r.metrics.CA.Issued))
	require.InDelta(t, 9, valueOf(t, r.metrics.CA.Unauthenticated), 0)
	require.InDelta(t, 1, valueOf(t, r.metrics.CA.Foreign), 0)
	require.InDelta(t, 1, valueOf(t, r.metrics.CA.Malformed), 0)
	require.InDelta(t, 1, valueOf(t, r.metrics.CA.Failed.WithLabelValues(ttlError)), 0)
	require.InDelta(t, 3, valueOf(t, r.metrics.CA.Failed.WithLabelValues(csrError)), 0)
}

func TestWithoutAuthorityCallersWait(t *testing.T) {
	s := NewService(ServiceOptions{
		Holder: NewHolder(), Authenticator: tokens{"Bearer books": bookshop}, TTL: DefaultTTL,
		Certificates: verifierOf(selfSigned(t, start), start),
		Metrics:      newMetrics(start), Log: quiet, Now: time.Now,
	})
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer books"))
	_, err := s.CreateCertificate(ctx, plain(t))
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	require.ErrorContains(t, err, "over TLS only")

	ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{}, AuthInfo: credentials.TLSInfo{}})
	_, err = s.CreateCertificate(ctx, plain(t))
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, ErrNotReady.Error())
}

func TestSigningsWaitForASlot(t *testing.T) {
	r := newRig(t)
	for range cap(r.service.slots) {
		r.service.slots <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, code, err := r.service.sign(ctx, DefaultTTL, bookshop, plain(t))
	require.Equal(t, codes.Unavailable, code)
	require.ErrorContains(t, err, "overloaded")
	<-r.service.slots
	_, code, err = r.service.sign(t.Context(), DefaultTTL, bookshop, plain(t))
	require.NoError(t, err)
	require.Equal(t, codes.OK, code)
}

func TestServingCertificateFollowsTheAuthority(t *testing.T) {
	holder := NewHolder()
	now := start
	s := NewServing(holder, []string{"istiod.istio-system.svc"}, func() time.Time { return now })
	_, err := s.Certificate()
	require.ErrorIs(t, err, ErrNotReady)
	serve := func() *x509.Certificate {
		pair, err := s.Certificate()
		require.NoError(t, err)
		return pair.Leaf
	}
	holder.Set(selfSigned(t, start))
	first := serve()
	require.NoError(t, first.VerifyHostname("istiod.istio-system.svc"))
	now = start.Add(servingLives/2 - time.Minute)
	require.Equal(t, first, serve())
	now = start.Add(servingLives/2 + time.Minute)
	second := serve()
	require.NotEqual(t, first, second, "half of its life is over")
	other := selfSigned(t, start)
	holder.Set(other)
	require.NoError(t, serve().CheckSignatureFrom(other.keys.certificate))
}
