package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/view"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// stream is one client's stream. Its loop (the handler's goroutine) owns all but what the reader writes into requests.
type stream struct {
	server   *Server
	grpc     grpc.ServerStream
	protocol session.Protocol
	kill     context.CancelCauseFunc // ends the stream even while a send is blocked
	log      *slog.Logger
	id       string
	address  string
	since    time.Time

	// requests are what the reader has read. When it is full the reader stops, and with it, by HTTP/2's flow control, the
	// client.
	requests chan *request
	// readEnd is why the reader has ended; it is set before requests is closed.
	readEnd error

	node     *Node
	identity Identity
	conn     *fanout.Conn
	turn     turn
	timeout  *time.Timer // ends the stream when a send takes too long
	stall    *time.Timer // gives the turn back when a send takes long
	nacked   bool

	mu      sync.Mutex // the loop changes what follows, Clients reads it
	session *session.Session
	own     view.Own
}

const (
	requestBuffer = 8
	// stallAfter is how long a send may hold a turn of the throttle. A client that does not read is then on its own.
	stallAfter = 100 * time.Millisecond
)

var (
	errWriteTimeout = errors.New("the client did not take a response in time")
	errNoRequest    = errors.New("the client sent no request in time")
)

type killKey struct{}

// cancellable gives each stream a context that its handler can cancel: grpc-go has no other way to end a send which
// waits for a client that does not read.
func cancellable(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, kill := context.WithCancelCause(ctx)
	return context.WithValue(ctx, killKey{}, kill), nil
}

// serve is the life of one stream.
func (s *Server) serve(g grpc.ServerStream, p session.Protocol) (err error) {
	ctx := g.Context()
	kill, ok := ctx.Value(killKey{}).(context.CancelCauseFunc)
	if !ok {
		return status.Error(codes.Internal, "the stream has no cancellable context")
	}
	st := &stream{
		server: s, grpc: g, protocol: p, kill: kill, log: s.options.Log, since: s.options.Now(),
		requests: make(chan *request, requestBuffer),
	}
	if from, ok := peer.FromContext(ctx); ok {
		st.address = from.Addr.String()
	}
	defer func() {
		if bug := recover(); bug != nil {
			s.instruments.xds.InternalErrors.Inc()
			st.log.Error("stream ended by a bug", "panic", bug, "stack", string(debug.Stack()))
			err = status.Error(codes.Internal, "internal error; see the control plane's log")
		}
	}()
	return st.live(ctx)
}

func (st *stream) live(ctx context.Context) error {
	if !st.server.admission.wait(ctx, st.server.options.Now()) {
		return st.refuse(codes.ResourceExhausted, errors.New("too many streams begin at once; try again"))
	}
	if a := st.server.options.Authenticator; a != nil {
		md, _ := metadata.FromIncomingContext(ctx)
		id, err := a.Authenticate(ctx, md)
		if err != nil {
			return st.refuse(codes.Unauthenticated, err)
		}
		st.identity = id
	}
	go st.read(ctx) // ends with ctx, which grpc-go cancels as soon as this handler has returned

	first, err := st.firstRequest(ctx)
	if err != nil || first == nil {
		return err
	}
	if err := st.connect(ctx, first); err != nil {
		return err
	}
	defer st.disconnect()
	if err := st.begin(first); err != nil {
		return st.ended(ctx, err)
	}
	return st.ended(ctx, st.loop(ctx))
}

// refuse ends a stream that was not admitted.
func (st *stream) refuse(code codes.Code, err error) error {
	st.server.instruments.xds.Refused.WithLabelValues(code.String()).Inc()
	st.log.Warn("stream refused", "address", st.address, "code", code, "error", err)
	return status.Error(code, err.Error())
}

// read is the reader: it ends when the client or the stream does.
func (st *stream) read(ctx context.Context) {
	defer close(st.requests)
	known := false
	for {
		r := &request{protocol: st.protocol, skipNode: known}
		if err := st.grpc.RecvMsg(r); err != nil {
			st.readEnd = err
			return
		}
		known = true
		st.server.instruments.received(r.size)
		select {
		case st.requests <- r:
		case <-ctx.Done():
			return
		}
	}
}

// firstRequest waits for the request that carries the node; nil if the client went away before.
func (st *stream) firstRequest(ctx context.Context) (*request, error) {
	limit := time.NewTimer(st.server.limits.FirstRequest)
	defer limit.Stop()
	select {
	case r, ok := <-st.requests:
		if !ok {
			return nil, st.readError()
		}
		return r, nil
	case <-limit.C:
		return nil, st.refuse(codes.DeadlineExceeded, errNoRequest)
	case <-st.server.draining:
		return nil, errDraining
	case <-ctx.Done():
		return nil, nil
	}
}

var errDraining = status.Error(codes.Unavailable, "the control plane is shutting down; reconnect")

// readError is what the end of the reader means for the stream: nothing if the client went away.
func (st *stream) readError() error {
	if st.readEnd == nil || errors.Is(st.readEnd, io.EOF) || status.Code(st.readEnd) == codes.Canceled {
		return nil
	}
	return st.readEnd
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
	conn, err := st.server.options.Registrar.Connect(ctx, node, st.identity)
	if err != nil {
		return st.refuse(registrarCode(err), errors.New(status.Convert(err).Message()))
	}
	st.node, st.conn = node, conn
	st.id = fmt.Sprintf("%s-%d", node.Name, st.server.ids.Add(1))
	st.log = st.log.With("proxy", node.Name, "connection", st.id)
	return nil
}

func registrarCode(err error) codes.Code {
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return codes.Unavailable
}

// begin makes the session and answers the first request.
func (st *stream) begin(first *request) error {
	st.session = session.New(st.sessionOptions())
	st.turn.conn = st.conn
	st.timeout = time.AfterFunc(time.Hour, func() { st.kill(errWriteTimeout) })
	st.timeout.Stop()
	st.stall = time.AfterFunc(time.Hour, st.turn.release)
	st.stall.Stop()
	st.server.instruments.connected(st.node).Inc()
	st.log.Info("proxy connected", "address", st.address, "identity", st.identity, "version", st.node.Metadata.IstioVersion)
	if p, ok := st.conn.Take(); ok {
		if err := st.bring(p); err != nil {
			return err
		}
	}
	st.server.add(st)
	return st.request(first)
}

func (st *stream) sessionOptions() session.Options {
	o := session.Options{
		Protocol: st.protocol,
		Differ:   st.server.options.Differ,
		Hold:     st.server.options.Hold,
		Drain:    st.server.options.Drain,
		Distrust: st.server.distrust.take(st.node.ID),
	}
	if st.node.UserAgent != envoyAgent {
		o.MaxBytes = maxResponse
	}
	return o
}

const (
	envoyAgent = "envoy"
	// maxResponse keeps responses below the limit that gRPC libraries have by default, 4 MiB; Envoy has none.
	maxResponse = 4<<20 - 64<<10
)

func (st *stream) disconnect() {
	st.server.remove(st)
	st.conn.Close()
	st.turn.release()
	if st.session != nil {
		st.server.distrust.remember(st.node.ID, st.session.Distrusted())
		st.timeout.Stop()
		st.stall.Stop()
		st.server.instruments.connected(st.node).Dec()
	}
	if st.nacked {
		st.server.instruments.forget(st.node)
	}
}

// ended tells what the client learns of its stream's end.
func (st *stream) ended(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errWriteTimeout) {
		st.server.instruments.xds.WriteTimeouts.Inc()
		st.log.Warn("proxy disconnected", "error", errWriteTimeout, "limit", st.server.limits.Write)
		return errWriteTimeout // the client was told Canceled: a send that fails tells it, before we can
	}
	st.log.Info("proxy disconnected", "error", err)
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
		Own:          st.own,
		Types:        st.session.Status(),
	}
}
