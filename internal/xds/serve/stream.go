package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/admission"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// stream is one client's stream. Its own goroutine, the handler's, reads; a goroutine of the Hub's
// pushes.
//
// The fields that a push and its ACK read come first: with thousands of streams each of these cache
// lines is fetched anew.
type stream struct {
	server        *Server
	grpc          grpc.ServerStream
	in            incoming // the request that is being read
	conn          *fanout.Conn
	session       *session.Session
	driving       sync.Mutex         // held while the session makes a step and its responses are sent, see drive.go
	mu            sync.Mutex         // held while the session makes a step, since Clients reads it
	pushMissed    atomic.Bool        // a push found the session busy
	ticked        atomic.Bool        // tick has fired
	sealPending   atomic.Bool        // the server waits for the stream to seal, see seal.go
	sealed        bool               // the session was told to seal
	hasEnded      bool               // the stream has ended
	hasSlot       bool               // it holds one of Server.requestSlots
	isFirstOfType bool               // the first response of its type is being sent
	tickAt        time.Time          // when tick fires; zero if it does not
	inFlight      admission.InFlight // the gate's
	out           outgoing           // the response that is being sent
	sending       sending            // sendWatch's

	tick      *time.Timer // nil until the session wants one
	requests  admission.RequestBudget
	asked     typeSet // types that the client has asked for
	entered   bool    // it has entered the gate and not left
	throttled bool    // it has asked for too much at some time
	nacked    bool
	protocol  session.Protocol
	cancel    context.CancelCauseFunc // ends the stream even while a send is blocked
	id        string
	address   string
	since     time.Time
	node      *Node
	identity  Identity
	ending    *ending // nil if nothing ends it but the client and the server
}

var (
	errWriteTimeout = errors.New("the client did not take a response in time")
	errNoRequest    = errors.New("the client sent no request in time")
	errBug          = errors.New("internal error; see the control plane's log")
	errEnded        = errors.New("the stream has ended")
)

type cancelKey struct{}

// withCancel gives each stream a context that its handler can cancel. grpc-go has no other way to
// end a send that waits for a client which does not read.
func withCancel(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	return context.WithValue(ctx, cancelKey{}, cancel), nil
}

// serve is the life of one stream.
func (s *Server) serve(g grpc.ServerStream, p session.Protocol) (err error) {
	ctx := g.Context()
	cancel, ok := ctx.Value(cancelKey{}).(context.CancelCauseFunc)
	if !ok {
		return status.Error(codes.Internal, "the stream has no cancellable context")
	}
	st := &stream{server: s, grpc: g, protocol: p, cancel: cancel, since: s.options.Now()}
	st.in = incoming{protocol: p, pools: &s.pools}
	st.out.queue.Total, st.out.pools = s.options.Metrics.XDS.Queued, &s.pools
	if from, ok := peer.FromContext(ctx); ok {
		st.address = from.Addr.String()
	}
	defer func() {
		if bug := recover(); bug != nil {
			st.bug(bug)
			err = status.Error(codes.Internal, errBug.Error())
		}
	}()
	return st.live(ctx)
}

func (st *stream) live(ctx context.Context) error {
	defer st.releaseSlot()
	defer st.leaveGate()
	if err := st.accept(ctx); err != nil {
		return err
	}
	if st.conn == nil {
		return nil // the client left before it was registered
	}
	defer st.disconnect()
	err := st.begin()
	st.leaveGate()
	if err == nil {
		err = st.read(ctx)
	}
	return st.ended(ctx, err)
}

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
		st.identity = id
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

// leaveGate lets the next stream enter, if this one has entered.
func (st *stream) leaveGate() {
	if st.entered {
		st.entered = false
		st.server.gate.Leave()
	}
}

// log returns the logger with what is known of the client. It is made when needed: a stream logs
// nothing most of its life.
func (st *stream) log() *slog.Logger {
	if st.node == nil {
		return st.server.options.Log
	}
	return st.server.options.Log.With("proxy", st.node.Name, "connection", st.id)
}

// refuse ends a stream that was not admitted.
func (st *stream) refuse(code codes.Code, err error) error {
	st.server.instruments.xds.Refused.WithLabelValues(code.String()).Inc()
	st.log().Warn("stream refused", "address", st.address, "code", code, "error", err)
	return status.Error(code, err.Error())
}

// receive reads the next request into st.in.
func (st *stream) receive() error {
	if err := st.grpc.RecvMsg(&st.in); err != nil {
		return err
	}
	st.server.instruments.received(st.in.request.size)
	return nil
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

// read takes requests until the stream ends. It returns nil if the client ended it.
func (st *stream) read(ctx context.Context) error {
	for {
		if err := st.receive(); err != nil {
			return ignoreEnd(err)
		}
		r := st.in.request
		if r.Nack != nil {
			st.refused(r)
		}
		asks := r.asks()
		if err := st.request(r); err != nil {
			return err
		}
		asks = asks || r.isStale
		st.in.done()
		if asks {
			st.throttle(ctx)
		}
	}
}

// refused records that the client has refused what it was sent.
//
//go:noinline
func (st *stream) refused(r *request) {
	st.nacked = true
	t := requestType(r)
	st.server.instruments.refused(t, st.node, r.Nack)
	st.log().Warn("proxy refused its configuration", "type", shortName(t), "error", r.Nack.Message)
}

// ignoreEnd returns what the end of reading means for the stream: nothing if the client left.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || status.Code(err) == codes.Canceled {
		return nil
	}
	return err
}

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
	if err := authorize(node, st.identity); err != nil {
		return st.refuse(codes.PermissionDenied, err)
	}
	if st.server.endings.isGone(podOf(st.identity)) {
		return st.refuse(codes.Unauthenticated, errPodGone)
	}
	conn, err := st.server.options.Registrar.Connect(ctx, node, st.identity)
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

// begin makes the session and answers the first request.
func (st *stream) begin() error {
	st.session = session.New(st.sessionOptions())
	st.server.instruments.connected(st.node).Inc()
	st.log().Info("proxy connected", "address", st.address, "identity", st.identity,
		"version", st.node.Metadata.IstioVersion, "agent", st.node.UserAgent, "release", st.node.Release)
	if err := st.start(); err != nil {
		return err
	}
	st.server.add(st)
	st.server.endings.add(st)
	err := st.request(st.in.request)
	st.in.done()
	st.conn.Start(st.push)
	if st.ticked.Load() || st.sealPending.Load() { // which came before push was known to the Hub
		st.conn.Poke()
	}
	return err
}

// start brings the session to the state with which it was registered.
func (st *stream) start() error {
	st.driving.Lock()
	defer st.driving.Unlock()
	if p, ok := st.conn.Take(); ok {
		return st.update(p, st.server.options.Now())
	}
	return nil
}

func (st *stream) sessionOptions() session.Options {
	o := session.Options{
		Protocol: st.protocol,
		Differ:   st.server.options.Differ,
		Scratch:  &st.server.scratch,
		Hold:     st.server.options.Hold,
		Drain:    st.server.options.Drain,
		Distrust: st.server.distrust.take(st.node.ID),
	}
	if st.node.UserAgent != envoyAgent {
		o.MaxBytes = maxResponse
	}
	if !st.node.takesVHDSAndLEDS() {
		return o
	}
	o.VirtualHosts = !st.server.options.WholeRoutes
	if !st.server.options.WholeEndpoints {
		o.Collections = collectionsFrom
	}
	return o
}

const (
	// collectionsFrom is the number of endpoints from which on a cluster goes in LEDS form. One
	// changed endpoint is then much smaller than the list of all. For small clusters the list is
	// smaller, and needs no subscription of its own.
	collectionsFrom = 200
	// maxResponse keeps responses below the default limit of gRPC libraries, 4 MiB. Envoy has no
	// limit.
	maxResponse = 4<<20 - 64<<10
)

// disconnect ends what the stream shares with others, and waits for a push that is under way.
func (st *stream) disconnect() {
	st.cancel(errEnded)
	st.driving.Lock()
	defer st.driving.Unlock()
	st.hasEnded = true
	st.out.queue.Close()
	st.server.gate.Answered(&st.inFlight)
	st.server.remove(st)
	st.server.endings.remove(st)
	st.sealPending.Store(false) // Server.seal sets it only for registered streams
	st.conn.Close()
	if st.tick != nil {
		st.tick.Stop()
	}
	if st.session != nil {
		st.server.distrust.remember(st.node.ID, st.session.Distrusted())
		st.server.instruments.connected(st.node).Dec()
	}
	if st.nacked {
		st.server.instruments.forget(st.node)
	}
}

// ended returns the error with which the handler ends. A stream that was cancelled has told its
// client Canceled already, through a send or a read that failed.
func (st *stream) ended(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errWriteTimeout):
		st.server.instruments.xds.WriteTimeouts.Inc()
		st.log().Warn("proxy disconnected", "error", errWriteTimeout, "limit", st.server.limits.Write)
		return errWriteTimeout
	case errors.Is(cause, errBug):
		err = errBug
	case endReason(cause) != "":
		st.server.instruments.xds.Ended.WithLabelValues(endReason(cause)).Inc()
		err = cause
	}
	st.log().Info("proxy disconnected", "error", err)
	return err
}

func (st *stream) client() Client {
	st.mu.Lock()
	defer st.mu.Unlock()
	return Client{
		ConnectionID: st.id,
		Node:         st.node,
		Identity:     st.identity,
		Address:      st.address,
		ConnectedAt:  st.since,
		Protocol:     st.protocol,
		Behind:       st.conn.Behind(),
		State:        st.session.State(),
		Overlay:      st.session.Overlay(),
		Types:        st.session.Status(),
	}
}
