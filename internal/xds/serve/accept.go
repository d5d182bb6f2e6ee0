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
)

// accept is all that a stream does before it is registered. It is a function of its own because of
// its frame, which would otherwise stay below the reading. A goroutine that waits with more than 4
// KiB of its stack in use has 16 KiB.
//
//go:noinline
func (st *stream) accept(ctx context.Context) error {
	if !st.admitted(ctx) {
		return st.refuse(codes.ResourceExhausted, errors.New("too many streams begin at once; try again"))
	}
	if a := st.server.options.Authenticator; a != nil {
		md, _ := metadata.FromIncomingContext(ctx)
		id, err := a.Authenticate(ctx, md)
		if err != nil {
			code := codes.Unauthenticated
			if s, ok := status.FromError(err); ok {
				code, err = s.Code(), errors.New(s.Message())
			}
			return st.refuse(code, err)
		}
		st.owner = st.owner.identified(id)
	}
	if err := st.awaitFirstRequest(ctx); err != nil {
		return ignoreEnd(err)
	}
	if err := st.acquireSlot(ctx); err != nil {
		return ignoreEnd(err)
	}
	return st.connect(ctx, st.in.request)
}

// admitted waits until the stream may begin.
func (st *stream) admitted(ctx context.Context) bool {
	waiting := st.server.instruments.xds.Waiting
	waiting.Inc()
	defer waiting.Dec()
	return st.server.streamLimiter.Wait(ctx, st.server.options.Now())
}

// awaitFirstRequest waits for the first request, and until the gate admits the stream. It reads no
// request before the stream has a place in the gate's queue.
func (st *stream) awaitFirstRequest(ctx context.Context) error {
	gate, waiting := st.server.gate, st.server.instruments.xds.Waiting
	waiting.Inc()
	err := gate.Queue().Acquire(ctx)
	waiting.Dec()
	if err != nil {
		return err
	}
	leave := sync.OnceFunc(gate.Queue().Release)
	defer leave()
	if err := st.receiveFirst(ctx, leave); err != nil {
		return err
	}
	return st.enter(ctx)
}

// enter waits until the gate admits the stream.
func (st *stream) enter(ctx context.Context) error {
	waiting := st.server.instruments.xds.Waiting
	waiting.Inc()
	defer waiting.Dec()
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
	var raw corev3.Node
	if err := proto.Unmarshal(first.node, &raw); err != nil {
		return st.refuse(codes.InvalidArgument, fmt.Errorf("malformed node: %w", err))
	}
	node, err := ParseNode(&raw)
	if err != nil {
		return st.refuse(codes.InvalidArgument, err)
	}
	if err := authorize(node, st.owner.identity); err != nil {
		return st.refuse(codes.PermissionDenied, err)
	}
	conn, err := st.server.options.Registrar.Connect(ctx, node, st.owner.identity)
	if err != nil {
		return st.refuse(registrarCode(err), errors.New(status.Convert(err).Message()))
	}
	st.node, st.conn, st.in.skipNode = node, conn, true
	st.id = fmt.Sprintf("%s-%d", node.Name, st.server.ids.Add(1))
	return nil
}

func registrarCode(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return codes.Unavailable
}
