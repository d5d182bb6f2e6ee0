package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

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
	driver        driver             // who drives the session, and what is due
	mu            sync.Mutex         // held while the session makes a step, since Clients reads it
	sealed        bool               // the session was told to seal
	hasSlot       bool               // it holds one of Server.requestSlots
	isFirstOfType bool               // the first response of its type is being sent
	tickAt        time.Time          // when tick fires; zero if it does not
	earliestTick  time.Time          // when it may fire at the earliest
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
	waited    time.Duration // for its admission
	node      *Node
	owner     owner
	expires   time.Time // of the owner's proof; zero if it does not say
	charged   charge
	inspected string  // the nonce of the last answer to a tool
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

// handler returns the life of a protocol's streams. Below it the stream waits for requests, most of
// its life, so all else is in functions of their own, which are not inlined: Go shrinks a stack of
// 16 KiB if less than 3.3 KB of it are in use, and grpc-go takes 3.0 of them. For the same reason
// there is no function between grpc-go and this one, and one defer.
func (s *Server) handler(p session.Protocol) grpc.StreamHandler {
	return func(_ any, g grpc.ServerStream) (err error) {
		st, err := s.newStream(g, p)
		if err != nil {
			return err
		}
		defer st.end(&err)
		if err = st.open(); err != nil || st.conn == nil {
			return err
		}
		for err == nil {
			if err = g.RecvMsg(&st.in); err != nil {
				err = ignoreEnd(err)
				break
			}
			err = st.received()
		}
		return st.ended(err)
	}
}

// newStream makes the stream of a call, which nothing knows yet.
//
//go:noinline
func (s *Server) newStream(g grpc.ServerStream, p session.Protocol) (*stream, error) {
	ctx := g.Context()
	cancel, ok := ctx.Value(cancelKey{}).(context.CancelCauseFunc)
	if !ok {
		return nil, status.Error(codes.Internal, "the stream has no cancellable context")
	}
	st := &stream{server: s, grpc: g, protocol: p, cancel: cancel, since: s.options.Now()}
	st.in = incoming{protocol: p, pools: &s.pools}
	st.out.queue.Total, st.out.pools = s.options.Metrics.XDS.Queued, &s.pools
	st.locate(ctx)
	return st, nil
}

// end ends the stream. It has a bug end this stream alone.
//
//go:noinline
func (st *stream) end(err *error) {
	defer func() {
		if bug := recover(); bug != nil {
			*err = st.broken(bug)
		}
	}()
	if bug := recover(); bug != nil {
		*err = st.broken(bug)
	}
	st.leave()
}

// broken returns the error with which a bug ends the stream.
func (st *stream) broken(bug any) error {
	st.bug(bug)
	return status.Error(codes.Internal, errBug.Error())
}

// leave ends what the stream shares with others.
func (st *stream) leave() {
	defer st.release()
	if st.conn != nil {
		st.disconnect()
	}
}

// locate learns where the client is.
func (st *stream) locate(ctx context.Context) {
	if from, ok := peer.FromContext(ctx); ok {
		st.address, st.owner = from.Addr.String(), ownerOf(Identity{}, from.Addr)
	}
}

// release returns the stream's slots and quotas to the shared limiters.
func (st *stream) release() {
	st.leaveGate()
	st.releaseSlot()
	st.refund()
}

// open admits and registers the stream, and answers its first request. Without an error and without
// a conn the client left before it was registered, or was a tool.
//
//go:noinline
func (st *stream) open() error {
	if err := st.accept(st.grpc.Context()); err != nil || st.conn == nil {
		return err
	}
	err := st.begin()
	st.leaveGate()
	if err != nil {
		return st.ended(err)
	}
	return nil
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
	return st.server.options.Log.With("proxy", untrusted(st.node.Name), "connection", st.id)
}

// warnSometimes logs what clients can cause as often as they like. It writes a few lines of a kind
// in a while, and says how many it left out.
func (st *stream) warnSometimes(kind, message string, args ...any) {
	if skipped, ok := st.server.logLimit.Allow(kind, st.server.options.Now()); ok {
		if skipped > 0 {
			args = append(args, "lines_left_out", skipped)
		}
		st.log().Warn(message, args...)
	}
}

// receive reads the next request into st.in.
func (st *stream) receive() error {
	if err := st.grpc.RecvMsg(&st.in); err != nil {
		return err
	}
	st.server.instruments.received(st.in.request.size)
	return nil
}

// received takes the request that was read into st.in.
//
//go:noinline
func (st *stream) received() error {
	r := st.in.request
	st.server.instruments.received(r.size)
	ctx := st.grpc.Context()
	if r.isInspection() {
		if err := st.inspectBeside(ctx); err != nil {
			return err
		}
		st.throttle(ctx)
		return nil
	}
	if r.isHealth() {
		st.reportHealth(r)
		st.in.done()
		st.throttle(ctx)
		return nil
	}
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
	return nil
}

// refused records that the client has refused what it was sent.
//
//go:noinline
func (st *stream) refused(r *request) {
	st.nacked = true
	t := requestType(r)
	st.server.instruments.refused(t, st.node, r.Nack)
	st.warnSometimes("nack", "proxy refused its configuration",
		"type", shortName(t), "error", untrusted(r.Nack.Message))
}

// ignoreEnd returns what the end of reading means for the stream: nothing if the client left.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || status.Code(err) == codes.Canceled {
		return nil
	}
	return err
}

// begin makes the session and answers the first request. The stream drives from its beginning until
// the Hub knows push, so that nothing is asked of the Hub before.
func (st *stream) begin() error {
	defer st.stop()
	st.session = session.New(st.sessionOptions())
	st.server.instruments.connected(st.node).Inc()
	st.log().Info("proxy connected", "address", st.address, "identity", st.owner.identity,
		"version", untrusted(st.node.Metadata.IstioVersion), "agent", untrusted(st.node.UserAgent),
		"release", st.node.Release)
	if err := st.start(); err != nil {
		return err
	}
	st.server.add(st)
	st.server.endings.add(st)
	err := st.first(st.in.request)
	st.in.done()
	st.conn.Start(st.push)
	return err
}

// first takes the request that the stream begins with.
func (st *stream) first(r *request) error {
	if r.isHealth() {
		st.reportHealth(r)
		return nil
	}
	return st.answer(r)
}

// start brings the session to the state with which it was registered.
func (st *stream) start() error {
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
		Distrust: st.server.distrust.take(distrustKeyOf(st.owner, st.node), st.server.options.Now()),
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
	st.driver.await()
	defer st.driver.on(streamEnds)
	st.out.queue.Close()
	st.server.gate.Answered(&st.inFlight)
	st.server.remove(st)
	st.server.endings.remove(st)
	st.conn.Close()
	if st.tick != nil {
		st.tick.Stop()
	}
	if st.session != nil {
		st.rememberDistrust()
		st.server.instruments.connected(st.node).Dec()
	}
	if st.nacked {
		st.server.instruments.forget(st.node)
	}
}

// rememberDistrust keeps for the proxy's next stream which of its reported versions will not count.
func (st *stream) rememberDistrust() {
	dropped := st.server.distrust.remember(
		distrustKeyOf(st.owner, st.node), st.session.Distrusted(), st.server.options.Now(),
	)
	if dropped > 0 {
		st.server.options.Metrics.Drops.WithLabelValues("distrusted_name").Add(float64(dropped))
		st.warnSometimes("distrusted_name", "it is forgotten which resources a proxy may have refused; "+
			"it may keep them as they are until they change", "names", dropped)
	}
}

// ended returns the error with which the handler ends. A stream that was cancelled has told its
// client Canceled already, through a send or a read that failed.
//
//go:noinline
func (st *stream) ended(err error) error {
	switch cause := context.Cause(st.grpc.Context()); {
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
		Identity:     st.owner.identity,
		Address:      st.address,
		ConnectedAt:  st.since,
		Protocol:     st.protocol,
		Behind:       st.conn.Behind(),
		Class:        st.conn.Class(),
		State:        st.session.State(),
		Overlay:      st.session.Overlay(),
		Types:        st.session.Status(),
	}
}
