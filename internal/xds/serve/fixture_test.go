package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

func TestMain(m *testing.M) { leak.Main(m) }

// fixture is a server on an in-memory listener; it is the Registrar too, and puts every proxy into
// one class.
type fixture struct {
	t       testing.TB
	hub     *fanout.Hub
	server  *Server
	metrics *observe.Metrics
	store   *resource.Store
	log     *lockedBuffer
	conn    *grpc.ClientConn
	client  discoveryv3.AggregatedDiscoveryServiceClient

	mu      sync.Mutex
	state   resource.State
	refusal error // of the Registrar
	own     resource.Overlay
}

const class fanout.ClassID = 1

func newFixture(t testing.TB, adjust ...func(*Options)) *fixture {
	f := &fixture{t: t, store: resource.NewStore(), log: &lockedBuffer{}, own: resource.Overlay{Pod: "127.0.0.2"}}
	f.metrics = observe.New(observe.Build{Start: time.Now(), Now: time.Now})
	f.hub = fanout.NewHub(fanout.Options{Throttle: 1, Metrics: f.metrics, Now: time.Now})
	f.state = f.clusters(1, 1, "a", "b")
	log, err := observe.NewLogger(f.log, slog.LevelInfo, observe.Text)
	require.NoError(t, err)
	o := Options{
		Registrar: f, Pushes: f.hub, Differ: resource.NewDiffer(64), Metrics: f.metrics,
		Log: log, Now: time.Now, Hold: time.Millisecond,
	}
	for _, a := range adjust {
		a(&o)
	}
	f.server = New(o)
	l := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(l) }()
	// A static window, so that a client which does not read stops the server after 64 KiB.
	conn, err := grpc.NewClient("passthrough:///lateen", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(1<<16), grpc.WithStaticConnWindowSize(1<<24),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<26)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	require.NoError(t, err)
	f.conn = conn
	f.client = discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		f.server.Stop(context.Background())
		require.NoError(t, <-served)
	})
	return f
}

// Connect is the Registrar's.
func (f *fixture) Connect(context.Context, *Node, Identity) (*fanout.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refusal != nil {
		return nil, f.refusal
	}
	return f.hub.Register(class, f.state, f.own), nil
}

// refuse has the Registrar refuse whoever comes from now on.
func (f *fixture) refuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusal = err
}

// clusters is a state of clusters whose bodies have about the given size.
func (f *fixture) clusters(generation uint64, size int, names ...string) resource.State {
	var resources []*resource.Resource
	for _, name := range names {
		body, err := proto.Marshal(&clusterv3.Cluster{Name: name, AltStatName: strings.Repeat("x", size)})
		require.NoError(f.t, err)
		resources = append(resources, resource.New(name, body))
	}
	return resource.NewState(generation).With(resource.Cluster, f.store.Build(resources...))
}

func (f *fixture) publish(s resource.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state = s
	f.hub.Publish(fanout.Generation{
		Number:   s.Generation(),
		Cause:    "test",
		Observed: time.Now(),
		Changed:  []fanout.ClassChange{{Class: class, State: s}},
	})
}

// delta opens a delta stream that asks for all clusters.
func (f *fixture) delta(node *corev3.Node) deltaStream { return f.names(node) }

// names opens a delta stream that asks for clusters by name, for all if there is no name.
func (f *fixture) names(node *corev3.Node, names ...string) deltaStream {
	ctx, cancel := context.WithCancel(f.t.Context())
	s, err := f.client.DeltaAggregatedResources(ctx)
	require.NoError(f.t, err)
	d := deltaStream{f.t, s, cancel}
	d.send(&discoveryv3.DeltaDiscoveryRequest{
		Node: node, TypeUrl: resource.Cluster.URL(), ResourceNamesSubscribe: names,
	})
	return d
}

type deltaStream struct {
	t      testing.TB
	stream grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
	cancel func()
}

// send sends; io.EOF says only that the stream has ended, and Recv says why.
func (d deltaStream) send(r *discoveryv3.DeltaDiscoveryRequest) {
	if err := d.stream.Send(r); !errors.Is(err, io.EOF) {
		require.NoError(d.t, err)
	}
}

func (d deltaStream) recv() *discoveryv3.DeltaDiscoveryResponse {
	r, err := d.stream.Recv()
	require.NoError(d.t, err)
	return r
}

func (d deltaStream) ack(r *discoveryv3.DeltaDiscoveryResponse) {
	d.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()})
}

// fails reads until the stream ends and requires its status.
func (d deltaStream) fails(code codes.Code, message string) {
	d.t.Helper()
	for {
		_, err := d.stream.Recv()
		if err == nil {
			continue
		}
		require.Equal(d.t, code.String(), status.Code(err).String(), err.Error())
		require.Contains(d.t, status.Convert(err).Message(), message)
		return
	}
}

func nodeOf(id string) *corev3.Node { return envoyOf(id, 1, 40) }

// envoyOf is an Envoy of a release.
func envoyOf(id string, major, minor uint32) *corev3.Node {
	return &corev3.Node{Id: id, UserAgentName: "envoy", UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{
		UserAgentBuildVersion: &corev3.BuildVersion{
			Version: &typev3.SemanticVersion{MajorNumber: major, MinorNumber: minor},
		},
	}}
}

// value is the sum of a metric's series whose labels include those given as name, value, ….
func (f *fixture) value(name string, labels ...string) float64 {
	families, err := f.metrics.Registry.Gather()
	require.NoError(f.t, err)
	total := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, s := range family.GetMetric() {
			has := map[string]string{}
			for _, l := range s.GetLabel() {
				has[l.GetName()] = l.GetValue()
			}
			matches := true
			for i := 0; i < len(labels); i += 2 {
				matches = matches && has[labels[i]] == labels[i+1]
			}
			if matches {
				total += s.GetCounter().
					GetValue() +
					s.GetGauge().
						GetValue() +
					float64(
						s.GetHistogram().GetSampleCount(),
					)
			}
		}
	}
	return total
}

func (f *fixture) eventually(what string, ok func() bool) {
	f.t.Helper()
	require.Eventually(f.t, ok, 3*time.Minute, time.Millisecond, what)
}

// logged waits until the log has a text: counters are counted before the line that goes with them.
func (f *fixture) logged(text string) {
	f.t.Helper()
	f.eventually("logged: "+text, func() bool { return strings.Contains(f.log.String(), text) })
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
