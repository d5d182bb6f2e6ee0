package serve

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/xds/admission"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// Registrar is what serve needs of the pipeline: it finds the class of a proxy that has just
// connected, and registers the connection at the Hub. serve closes the connection when the stream
// ends.
//
// An error that is a gRPC status is sent unchanged; any other is sent as Unavailable, as before the
// first state is there.
type Registrar interface {
	Connect(ctx context.Context, node *Node, id Identity) (*fanout.Conn, error)
}

// Options are what a Server needs; zero limits have defaults.
type Options struct {
	Registrar Registrar
	// Authenticator proves who opens a stream. Without one, every client is anonymous and believed.
	Authenticator Authenticator
	// Pushes reports which pushes are under way, so that new streams give way to them.
	Pushes admission.Pushes
	// Differ is shared by all sessions of the process, so that sessions which make the same step
	// share its result.
	Differ  *resource.Differ
	Metrics *observe.Metrics
	Log     *slog.Logger
	Now     func() time.Time
	Limits  Limits
	// Alone tells that no other server takes this one's clients. Then Stop ends their connections
	// without a pace, which would only lengthen the time in which nothing listens, and with it the
	// clients' backoff.
	Alone bool
	// Hold and Drain are the session's: how long dependants wait for what they depend on, and how
	// long a proxy's old listeners keep serving.
	Hold, Drain time.Duration
	// WholeRoutes and WholeEndpoints turn VHDS and LEDS off: all clients get route tables, and the
	// endpoints of a cluster, as one resource each. Otherwise Envoys that are new enough get
	// virtual hosts, and the endpoints of large clusters, as resources of their own.
	WholeRoutes, WholeEndpoints bool
	// MakesClass reports whether nobody has yet the configuration that a node is to get. It may
	// block as Registrar.Connect does. Nil means never.
	MakesClass func(ctx context.Context, node *Node, id Identity) bool
	// Register registers further services with the server; it may be nil. Their calls have limits
	// as streams have, and messages of 64 KiB at most.
	Register func(grpc.ServiceRegistrar)
	// Callers proves who calls them. Without it, every caller is anonymous.
	Callers CallAuthenticator
	// Health takes what the agent of a proxy tells of its workload. It reports false if that goes
	// nowhere, and must not block. Nil: all of it goes nowhere.
	Health func(*fanout.Conn, Health) bool
	// Inspector answers tools; nil if nobody does.
	Inspector Inspector
	// Credentials secure connections and prove who has opened them. Without them connections are in
	// plaintext.
	Credentials credentials.TransportCredentials
}

// Limits keep one client from harming others.
type Limits struct {
	// StreamsPerSecond may begin (PILOT_MAX_REQUESTS_PER_SECOND); 0 takes it from the machine's
	// size.
	StreamsPerSecond float64
	// StreamsPerAddress limits the streams, and the connections, of one IP address that is not this
	// machine's, as long as no Pod is proven. 0 means 2,048; below 0 such an address has no limits.
	StreamsPerAddress int
	// MemoryTight reports whether there is no memory for further streams and calls, which then
	// wait. It is called often, by two goroutines at a time. nil means never.
	MemoryTight func() bool
	// firstBytes of first responses may be in flight for all clients together; 0 is the gate's
	// default.
	firstBytes int
	// Write is how long a client may take to receive one response. Then its stream is ended. 0
	// means 30 s.
	Write time.Duration
	// FirstRequest is how long a stream may be open without a request. 0 means 15 s.
	FirstRequest time.Duration
	// ReceiveBytes is the size of the largest request; 0 means 8 MiB. A proxy that comes back
	// names all that it has, with some 100 bytes for each resource.
	ReceiveBytes int
	// KeepaliveInterval and KeepaliveTimeout find dead connections. 0 means 30 s, and 10 s more
	// than Write: grpc-go also sets the timeout as TCP_USER_TIMEOUT, with which the kernel ends a
	// connection whose client does not read, without telling the client.
	KeepaliveInterval, KeepaliveTimeout time.Duration
	// ConnectionAge ends connections of that age, give or take a tenth, so that clients spread over
	// replicas anew. 0 means never.
	ConnectionAge time.Duration
	// connectionGrace is how long a connection serves on after its client was told that it has come
	// of age. 0 means a tenth of the age, 10 s at most.
	connectionGrace time.Duration
	// notice is how long connections stay open after Stop has told their clients that they will end
	// (GOAWAY). Calls that are under way end in it, and new ones go elsewhere. 0 means 200 ms.
	notice time.Duration
}

const (
	defaultWrite             = 30 * time.Second
	defaultFirstRequest      = 15 * time.Second
	defaultReceiveBytes      = 8 << 20
	defaultKeepaliveInterval = 30 * time.Second
	keepaliveAfterWrite      = 10 * time.Second
	maxConnectionGrace       = 10 * time.Second // as in Istio

	// maxStreams of one connection. A client has one, and another one for each of its tries.
	maxStreams = 100
	// maxHeaders is the size of a call's headers. Tokens have 1 to 2 KiB.
	maxHeaders = 64 << 10
	// handshakeTimeout is how long a new connection may take until it speaks HTTP/2.
	handshakeTimeout = 20 * time.Second
	// idleConnection is how long a connection may be without a stream.
	idleConnection = 5 * time.Minute
)

const (
	// writeBuffer is small because each stream of a burst holds one until it is its turn to write.
	writeBuffer = 4 << 10
	readBuffer  = 1 << 10
	window      = 64<<10 - 1
	// connWindow is granted again as fast as it is used, whether a stream reads or not. So it
	// limits nobody, and a larger one saves frames.
	connWindow = 1 << 20
)

func (l Limits) orDefaults() Limits {
	l.StreamsPerAddress = cmp.Or(l.StreamsPerAddress, addressStreams)
	l.Write = cmp.Or(l.Write, defaultWrite)
	l.FirstRequest = cmp.Or(l.FirstRequest, defaultFirstRequest)
	l.ReceiveBytes = cmp.Or(l.ReceiveBytes, defaultReceiveBytes)
	l.KeepaliveInterval = cmp.Or(l.KeepaliveInterval, defaultKeepaliveInterval)
	l.KeepaliveTimeout = cmp.Or(l.KeepaliveTimeout, l.Write+keepaliveAfterWrite)
	l.notice = cmp.Or(l.notice, defaultNotice)
	l.connectionGrace = cmp.Or(l.connectionGrace, min(l.ConnectionAge/10, maxConnectionGrace))
	return l
}

// Server serves aggregated discovery on the listeners that it is given.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	options       Options
	limits        Limits
	streamLimiter *admission.StreamLimiter
	gate          *admission.Gate
	requestSlots  admission.Semaphore // of requests that ask for something
	instruments   *instruments
	sendWatch     *sendWatch
	endings       *endings
	scratch       session.Scratch // that sessions borrow from
	pools         pools           // that the streams do
	distrust      distrustStore
	logLimit      observe.LogLimit
	quotas        quotas
	shares        *admission.Shares[owner]
	callLimiter   *admission.StreamLimiter
	callShares    *admission.Shares[owner] // of calls whose caller is not known yet
	callPlaces    *admission.Shares[owner] // of the others
	conns         openConns
	grpc          *grpc.Server
	draining      chan struct{} // closed when streams should end
	drain         func()
	ids           atomic.Uint64

	mu      sync.Mutex
	streams map[*stream]struct{} // those with a node
}

// New returns a Server that does not listen yet.
func New(o Options) *Server {
	s := &Server{
		options:       o,
		limits:        o.Limits.orDefaults(),
		streamLimiter: admission.NewStreamLimiter(o.Limits.StreamsPerSecond, o.Limits.MemoryTight, o.Now()),
		gate:          admission.NewGate(o.Pushes, o.Limits.firstBytes),
		requestSlots:  admission.NewSemaphore(),
		instruments:   newInstruments(o.Metrics),
		draining:      make(chan struct{}),
		streams:       map[*stream]struct{}{},
	}
	s.shares = admission.NewShares[owner](s.streamLimiter, s.gate)
	s.callLimiter = admission.NewStreamLimiter(0, o.Limits.MemoryTight, o.Now())
	s.callShares = admission.NewShares[owner](s.callLimiter, s.gate)
	s.callPlaces = admission.NewPlaces[owner](podPlaces)
	s.sendWatch = newWatch(s.limits.Write, o.Now)
	s.endings = newEndings(o.Now)
	s.drain = sync.OnceFunc(func() { close(s.draining) })
	s.grpc = grpc.NewServer(s.grpcOptions()...)
	s.register()
	if o.Register != nil {
		o.Register(limitedServices{s})
	}
	return s
}

// register registers aggregated discovery. Its handlers are not the generated methods, which would
// stand on the stack of each stream.
func (s *Server) register() {
	both := grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	whole, delta := both, both
	whole.StreamName, whole.Handler = "StreamAggregatedResources", s.handler(session.StateOfTheWorld)
	delta.StreamName, delta.Handler = "DeltaAggregatedResources", s.handler(session.Delta)
	desc := discoveryv3.AggregatedDiscoveryService_ServiceDesc
	desc.Streams = []grpc.StreamDesc{whole, delta}
	s.grpc.RegisterService(&desc, s)
}

func (s *Server) grpcOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(newCoalescing(cmp.Or(s.options.Credentials, insecure.NewCredentials()), s.admitConnection)),
		grpc.ForceServerCodecV2(newCodec()),
		experimental.BufferPool(&framePool{}),
		grpc.InTapHandle(withCancel),
		grpc.WaitForHandlers(true),
		grpc.MaxRecvMsgSize(s.limits.ReceiveBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.ConnectionTimeout(handshakeTimeout),
		// Idle streams keep no buffers. Windows that are fixed spare the pings by which others are
		// measured, two frames for each ACK; a request that is larger than its window has it
		// widened while it is read.
		grpc.WriteBufferSize(writeBuffer),
		grpc.ReadBufferSize(readBuffer),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(connWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time:                  s.limits.KeepaliveInterval,
			Timeout:               s.limits.KeepaliveTimeout,
			MaxConnectionIdle:     idleConnection,
			MaxConnectionAge:      s.limits.ConnectionAge,
			MaxConnectionAgeGrace: s.limits.connectionGrace,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             s.limits.KeepaliveInterval / 2,
			PermitWithoutStream: true,
		}),
	}
}

// Serve accepts connections until Stop, and then returns nil. It may be called for several
// listeners.
func (s *Server) Serve(l net.Listener) error {
	err := s.grpc.Serve(s.gate.Listener(unsentLimitListener{l}))
	if errors.Is(err, grpc.ErrServerStopped) { // Stop came first
		return nil
	}
	return err
}

// Client is one connected proxy as of now.
type Client struct {
	ConnectionID string
	Node         *Node
	Identity     Identity
	Address      string
	ConnectedAt  time.Time
	Protocol     session.Protocol
	// Behind is set if a newer state waits to be pushed.
	Behind bool
	// Class is the class of the proxy.
	Class resource.ClassID
	// State and Overlay are what the proxy is being brought to.
	State   resource.State
	Overlay resource.Overlay
	Types   [resource.NumTypes]session.TypeStatus
}

// Clients returns the connected proxies by name, and by connection for a proxy that has several.
func (s *Server) Clients() []Client {
	s.mu.Lock()
	clients := make([]Client, 0, len(s.streams))
	for st := range s.streams {
		clients = append(clients, st.client())
	}
	s.mu.Unlock()
	slices.SortFunc(clients, func(a, b Client) int {
		return cmp.Or(cmp.Compare(a.Node.Name, b.Node.Name), cmp.Compare(a.ConnectionID, b.ConnectionID))
	})
	return clients
}

func (s *Server) add(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[st] = struct{}{}
}

func (s *Server) remove(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
}
