package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/admission"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// accept is all that a stream does before it is registered.
//
//go:noinline
func (st *stream) accept(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	if a := st.server.options.Authenticator; a != nil {
		if err := a.Screen(ctx, md); err != nil {
			return st.unauthenticated(err)
		}
	}
	if err := st.chargeStream(st.owner); err != nil {
		return err
	}
	if err := st.awaitTurn(ctx); err != nil {
		return err
	}
	leave, err := st.enterShare(ctx)
	if err != nil {
		return ignoreEnd(err)
	}
	defer leave()
	if err := st.authenticate(ctx, md); err != nil {
		return err
	}
	if err := st.awaitFirstRequest(ctx, leave); err != nil {
		return ignoreEnd(err)
	}
	leave()
	if st.in.request.isInspection() {
		return st.inspect(ctx)
	}
	if err := st.acquireSlot(ctx); err != nil {
		return ignoreEnd(err)
	}
	st.server.instruments.xds.AdmissionWait.Observe(st.waited.Seconds())
	return st.connect(ctx, st.in.request)
}

// waits counts the stream as one that waits for its admission, until the returned function is
// called.
func (st *stream) waits() (done func()) {
	waiting, now := st.server.instruments.xds.Waiting, st.server.options.Now
	since := now()
	waiting.Inc()
	return func() {
		waiting.Dec()
		st.waited += now().Sub(since)
	}
}

// awaitTurn waits until the stream may begin: first as far as its owner's share of the rate goes,
// then in the order of all.
func (st *stream) awaitTurn(ctx context.Context) error {
	defer st.waits()()
	now := st.server.options.Now
	if _, limited := st.server.limitsOf(st.owner); limited && !st.server.shares.Wait(ctx, st.owner, now()) {
		return st.exceeds("rate", fmt.Errorf("too many streams of %s begin at once; try again", st.owner))
	}
	if !st.server.streamLimiter.Wait(ctx, now()) {
		return st.refuse(codes.ResourceExhausted, errors.New("too many streams begin at once; try again"))
	}
	return nil
}

// enterShare takes one of the owner's places of streams that are not known yet, which leave gives
// back.
func (st *stream) enterShare(ctx context.Context) (leave func(), err error) {
	if _, limited := st.server.limitsOf(st.owner); !limited {
		return func() {}, nil
	}
	defer st.waits()()
	return st.server.shares.Enter(ctx, st.owner, st.server.options.Now())
}

// authenticate learns who the client is.
func (st *stream) authenticate(ctx context.Context, md metadata.MD) error {
	a := st.server.options.Authenticator
	if a == nil {
		return nil
	}
	id, err := a.Authenticate(ctx, md)
	if err != nil {
		return st.unauthenticated(err)
	}
	st.expires = id.Expires
	return st.chargeStream(st.owner.identified(id))
}

func (st *stream) unauthenticated(err error) error {
	code := codes.Unauthenticated
	if s, ok := status.FromError(err); ok {
		code, err = s.Code(), errors.New(s.Message())
	}
	return st.refuse(code, err)
}

// awaitFirstRequest waits for the first request, and until the gate admits the stream. It reads no
// request before the stream has a place in the gate's queue. late is called if the request does not
// arrive soon: the stream then takes no place from others.
func (st *stream) awaitFirstRequest(ctx context.Context, late func()) error {
	gate, arrived := st.server.gate, st.waits()
	err := gate.Queue().Acquire(ctx)
	arrived()
	if err != nil {
		return err
	}
	leave := sync.OnceFunc(gate.Queue().Release)
	defer leave()
	if err := st.receiveFirst(ctx, func() { leave(); late() }); err != nil {
		return err
	}
	return st.enter(ctx)
}

// enter waits until the gate admits the stream.
func (st *stream) enter(ctx context.Context) error {
	defer st.waits()()
	err := st.server.gate.Enter(ctx)
	st.entered = err == nil
	return err
}

// refuse ends a stream that was not admitted.
func (st *stream) refuse(code codes.Code, err error) error {
	st.server.instruments.xds.Refused.WithLabelValues(codeLabel(code)).Inc()
	message := untrusted(err.Error()) // it quotes the client, and goes back in a header
	st.warnSometimes(codeLabel(code), "stream refused", "address", st.address, "code", code, "error", message)
	return status.Error(code, message)
}

// receiveFirst waits for the request that carries the node. It reads in a second goroutine, because
// a read from a silent client ends only when the handler returns. late is called if the request
// does not arrive within admission.Patience.
func (st *stream) receiveFirst(ctx context.Context, late func()) error {
	limit := time.NewTimer(st.server.limits.FirstRequest)
	defer limit.Stop()
	soon := time.AfterFunc(admission.Patience, late)
	defer soon.Stop()
	received := make(chan error, 1)
	go func() { received <- st.receive() }()
	select {
	case err := <-received:
		return err
	case <-limit.C:
		return st.refuse(codes.DeadlineExceeded, errNoRequest)
	case <-st.server.draining:
		return errDraining
	case <-ctx.Done():
		return io.EOF
	}
}

var errDraining = status.Error(codes.Unavailable, "the control plane is shutting down; reconnect")

// connect learns who the client is and registers it.
func (st *stream) connect(ctx context.Context, first *request) error {
	if err := st.chargeNode(len(first.node)); err != nil {
		return err
	}
	var raw corev3.Node
	if err := proto.Unmarshal(first.node, &raw); err != nil {
		return st.refuse(codes.InvalidArgument, fmt.Errorf("malformed node: %w", err))
	}
	node, err := ParseNode(&raw)
	if err != nil {
		return st.refuse(codes.InvalidArgument, err)
	}
	node.Delta = st.protocol == session.Delta
	if err := authorize(node, st.owner.identity); err != nil {
		return st.refuse(codes.PermissionDenied, err)
	}
	if err := st.refuseGone(); err != nil {
		return err
	}
	if err := st.chargeClass(ctx, node); err != nil {
		return err
	}
	conn, err := st.server.options.Registrar.Connect(ctx, node, st.owner.identity)
	if err != nil {
		return st.refuse(registrarCode(err), errors.New(status.Convert(err).Message()))
	}
	st.node, st.conn, st.in.skipNode = node, conn, true
	st.id = fmt.Sprintf("%s-%d", node.Name, st.server.ids.Add(1))
	return nil
}

// refuseGone refuses a client whose Pod was removed: its token may be valid for longer.
func (st *stream) refuseGone() error {
	if st.server.endings.isGone(podOf(st.owner.identity)) {
		return st.refuse(codes.Unauthenticated, errPodGone)
	}
	return nil
}

func registrarCode(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return codes.Unavailable
}
