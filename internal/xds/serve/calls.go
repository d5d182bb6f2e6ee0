package serve

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/xds/admission"
)

// CallAuthenticator proves who calls the services of Options.Register. Its errors are shown to the
// client, with their code if they are a gRPC status, and else as Unauthenticated.
type CallAuthenticator interface {
	// Screen is that of an Authenticator.
	Screen(ctx context.Context, md metadata.MD) error
	// Authenticate returns who calls, and the context that the method gets.
	Authenticate(ctx context.Context, md metadata.MD) (context.Context, Identity, error)
}

const (
	// maxCallMessage is the size of the largest message of a call. Certificate requests have 2 KiB.
	maxCallMessage = 64 << 10
	// callPatience is how long a call waits for places, and for its message.
	callPatience = 10 * time.Second

	// podCalls and addressCalls may be under way at a time, waiting or not. Each holds a window of
	// HTTP/2 at most until its caller is known.
	podCalls, addressCalls = 16, 512
	// podPlaces are the calls of one caller that are read and answered at a time. The rest of its
	// calls wait, so a caller with many delays others by that many signings.
	podPlaces = 4
	// podCallRate and addressCallRate may begin a minute once the caller is known. An agent of a
	// node asks for each account of the node when it starts.
	podCallRate, addressCallRate = 300, 3000
)

// limitedServices registers services beside discovery. A call passes the same limits as a stream
// before its message is read, because one that is read and decoded first costs memory before
// anybody knows who calls.
//
// On the wire a call with one message is a stream with one message, so all methods are registered
// as methods of streams: grpc-go reads the message of others before it calls their handler.
type limitedServices struct{ server *Server }

// RegisterService implements grpc.ServiceRegistrar.
func (l limitedServices) RegisterService(desc *grpc.ServiceDesc, service any) {
	limited := *desc
	limited.Methods, limited.Streams = nil, nil
	for _, m := range desc.Methods {
		limited.Streams = append(limited.Streams, grpc.StreamDesc{
			StreamName: m.MethodName, Handler: l.handler(unary(m.Handler)),
		})
	}
	for _, m := range desc.Streams {
		m.Handler = l.handler(m.Handler)
		limited.Streams = append(limited.Streams, m)
	}
	l.server.grpc.RegisterService(&limited, service)
}

// unary returns the handler of a method with one message as that of a stream.
func unary(method grpc.MethodHandler) grpc.StreamHandler {
	return func(service any, g grpc.ServerStream) error {
		answer, err := method(service, g.Context(), g.RecvMsg, nil)
		if err != nil {
			return err
		}
		return g.SendMsg(answer)
	}
}

func (l limitedServices) handler(next grpc.StreamHandler) grpc.StreamHandler {
	return func(service any, g grpc.ServerStream) (err error) {
		c := l.server.newCall(g)
		defer c.recovered(&err)
		defer c.release()
		leave, err := c.accept(g.Context())
		if err != nil {
			return err
		}
		defer leave()
		return next(service, c)
	}
}

// call is one call of a service beside discovery.
type call struct {
	grpc.ServerStream
	server  *Server
	ctx     context.Context // the caller's, once it is known
	address string
	owner   owner
	counted bool // with its owner
}

func (s *Server) newCall(g grpc.ServerStream) *call {
	c := &call{ServerStream: g, server: s, ctx: g.Context()}
	if from, ok := peer.FromContext(c.ctx); ok {
		c.address, c.owner = from.Addr.String(), ownerOf(Identity{}, from.Addr)
	}
	return c
}

// Context implements grpc.ServerStream.
func (c *call) Context() context.Context { return c.ctx }

// recovered has a bug end this call alone.
func (c *call) recovered(err *error) {
	if bug := recover(); bug != nil {
		c.server.instruments.xds.InternalErrors.Inc()
		c.server.options.Log.Error("call ended by a bug", "panic", bug, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, errBug.Error())
	}
}

// accept is all that a call does before its message is read. It takes one of the places of its
// owner, which leave gives back.
func (c *call) accept(ctx context.Context) (leave func(), err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	by := c.server.options.Callers
	if by != nil {
		if err := by.Screen(ctx, md); err != nil {
			return nil, c.unauthenticated(err)
		}
	}
	if err := c.charge(c.owner); err != nil {
		return nil, err
	}
	if err := c.awaitTurn(ctx); err != nil {
		return nil, err
	}
	if by != nil {
		if err := c.authenticate(ctx, md, by); err != nil {
			return nil, err
		}
	}
	return c.enter(ctx, c.server.callPlaces)
}

// authenticate learns who calls. It holds a place of the address meanwhile, because forged tokens
// are reviewed too, and those of one client must delay neither others' nor streams.
func (c *call) authenticate(ctx context.Context, md metadata.MD, by CallAuthenticator) error {
	leave, err := c.enter(ctx, c.server.callShares)
	if err != nil {
		return err
	}
	proven, id, err := by.Authenticate(ctx, md)
	leave()
	if err != nil {
		return c.unauthenticated(err)
	}
	c.ctx = proven
	return c.identified(id)
}

// identified counts the call with the caller that is proven.
func (c *call) identified(id Identity) error {
	if err := c.charge(c.owner.identified(id)); err != nil {
		return err
	}
	limits, limited := c.server.limitsOf(c.owner)
	if !limited || c.server.quotas.callRates.Take(c.owner, limits.callRate, c.server.options.Now()) {
		return nil
	}
	return c.exceeds("call_rate", fmt.Errorf("%s has made %d calls within a minute, which is the limit; "+
		"want one for each certificate that is due", c.owner, limits.callRate))
}

// charge counts the call with an owner, in place of the one that it counted with before.
func (c *call) charge(o owner) error {
	limits, limited := c.server.limitsOf(o)
	had, ok := 0, true
	if limited {
		had, ok = c.server.quotas.calls.Take(o, 1, limits.calls)
	}
	if !ok {
		return c.exceeds("calls", fmt.Errorf("%s has %d calls at a time, which is the limit; try again", o, had))
	}
	c.release()
	c.owner, c.counted = o, limited
	return nil
}

// release gives back what the call counts for.
func (c *call) release() {
	if c.counted {
		c.server.quotas.calls.Return(c.owner, 1)
	}
	c.counted = false
}

// awaitTurn waits until the call may begin, as a stream does. Calls have rates of their own, so
// that they delay no streams.
func (c *call) awaitTurn(ctx context.Context) error {
	now := c.server.options.Now
	if _, limited := c.server.limitsOf(c.owner); limited && !c.server.callShares.Wait(ctx, c.owner, now()) {
		return c.exceeds("call_rate", fmt.Errorf("too many calls of %s begin at once; try again", c.owner))
	}
	if !c.server.callLimiter.Wait(ctx, now()) {
		return c.refuse(codes.ResourceExhausted, errors.New("too many calls begin at once; try again"))
	}
	return nil
}

// enter waits for one of the owner's places, for callPatience at most.
func (c *call) enter(ctx context.Context, of *admission.Shares[owner]) (leave func(), err error) {
	if _, limited := c.server.limitsOf(c.owner); !limited {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	leave, err = of.Enter(ctx, c.owner, c.server.options.Now())
	if err != nil {
		return nil, c.exceeds("calls", fmt.Errorf("too many calls of %s wait; try again", c.owner))
	}
	return leave, nil
}

// RecvMsg implements grpc.ServerStream. A second goroutine reads, because a read from a silent
// client ends only when the handler returns.
func (c *call) RecvMsg(v any) error {
	m := &callMessage{into: v}
	received := make(chan error, 1)
	go func() { received <- c.ServerStream.RecvMsg(m) }()
	limit := time.NewTimer(callPatience)
	defer limit.Stop()
	select {
	case err := <-received:
		if err == nil && m.size > maxCallMessage {
			return c.exceeds("call_size",
				fmt.Errorf("the request has %d bytes; want %d at most", m.size, maxCallMessage))
		}
		return err
	case <-limit.C:
		return c.refuse(codes.DeadlineExceeded, errNoRequest)
	}
}

// callMessage is a message that is decoded if it is not too large.
type callMessage struct {
	into any
	size int
}

func (c *call) unauthenticated(err error) error {
	code := codes.Unauthenticated
	if s, ok := status.FromError(err); ok {
		code, err = s.Code(), errors.New(s.Message())
	}
	return c.refuse(code, err)
}

// exceeds refuses a call because of a limit of its owner.
func (c *call) exceeds(limit string, err error) error {
	c.server.instruments.xds.Limited.WithLabelValues(limit).Inc()
	return c.refuse(codes.ResourceExhausted, err)
}

// refuse ends a call that its method has not answered.
func (c *call) refuse(code codes.Code, err error) error {
	message := untrusted(err.Error())
	if skipped, ok := c.server.logLimit.Allow("call "+codeLabel(code), c.server.options.Now()); ok {
		method, _ := grpc.Method(c.ctx)
		c.server.options.Log.Warn("call refused", "method", method, "address", c.address, "code", code,
			"error", message, "lines_left_out", skipped)
	}
	return status.Error(code, message)
}
