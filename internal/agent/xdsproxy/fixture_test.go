package xdsproxy

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	nodeID = "sidecar~10.0.0.1~a.default~default.svc.cluster.local"
	// patience is how long anything may take that should happen in a moment.
	patience = time.Minute
)

// controlPlane is one whose answers the test writes.
type controlPlane struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	t       *testing.T
	address string
	stop    func()
	streams chan *upstream
}

// upstream is a stream that the proxy has opened.
type upstream struct {
	t *testing.T
	grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
	done chan error
}

func startControlPlane(t *testing.T, address string) *controlPlane {
	t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	c := &controlPlane{t: t, address: l.Addr().String(), streams: make(chan *upstream, 16)}
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, c)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	c.stop = sync.OnceFunc(func() { server.Stop(); <-served })
	t.Cleanup(c.stop)
	return c
}

func (c *controlPlane) DeltaAggregatedResources(
	s grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse],
) error {
	u := &upstream{c.t, s, make(chan error, 1)}
	c.streams <- u
	select {
	case err := <-u.done:
		return err
	case <-s.Context().Done():
		return s.Context().Err()
	}
}

func (c *controlPlane) accept() *upstream {
	c.t.Helper()
	return receive(c.t, c.streams)
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("not reached")
	}
}

func (u *upstream) next() *discoveryv3.DeltaDiscoveryRequest {
	u.t.Helper()
	q, err := u.Recv()
	require.NoError(u.t, err)
	return q
}

func (u *upstream) give(r *discoveryv3.DeltaDiscoveryResponse) {
	u.t.Helper()
	require.NoError(u.t, u.Send(r))
}

// proxyOptions change the proxy of a test.
type proxyOptions func(*Options)

// running is a proxy, and the Envoy that the test plays.
type running struct {
	t      *testing.T
	proxy  *Proxy
	conn   *grpc.ClientConn
	socket string
	cancel func()
}

func startProxy(t *testing.T, upstream string, change ...proxyOptions) *running {
	t.Helper()
	dir, err := os.MkdirTemp("", "xds") // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	up, err := wire.Upstream{Address: upstream, Plaintext: true, ClusterID: "Kubernetes"}.Dial()
	require.NoError(t, err)
	o := Options{
		Upstream: up, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	for _, c := range change {
		c(&o)
	}
	p := New(o)
	p.backoff = wire.Backoff{Base: time.Millisecond, Max: 10 * time.Millisecond}
	socket := filepath.Join(dir, "socket")
	l, err := wire.Listen(socket)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, l) }()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	r := &running{t: t, proxy: p, conn: conn, socket: socket}
	r.cancel = sync.OnceFunc(func() {
		require.NoError(t, conn.Close())
		cancel()
		require.NoError(t, <-served)
		require.NoError(t, up.Close())
	})
	t.Cleanup(r.cancel)
	return r
}

// withCache keeps the last configuration in a file.
func withCache(file string) proxyOptions {
	return func(o *Options) { o.Cache = CacheOptions{File: file, Node: nodeID, MaxBytes: 1 << 20} }
}

// envoy is a delta stream of the Envoy that a test plays.
type envoy struct {
	t *testing.T
	grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
}

func (r *running) envoy() envoy {
	r.t.Helper()
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.conn).DeltaAggregatedResources(r.t.Context())
	require.NoError(r.t, err)
	return envoy{r.t, s}
}

func (e envoy) ask(q *discoveryv3.DeltaDiscoveryRequest) {
	e.t.Helper()
	require.NoError(e.t, e.Send(q))
}

func (e envoy) next() *discoveryv3.DeltaDiscoveryResponse {
	e.t.Helper()
	r, err := e.Recv()
	require.NoError(e.t, err)
	return r
}

func (e envoy) ack(r *discoveryv3.DeltaDiscoveryResponse) {
	e.t.Helper()
	e.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()})
}

func node() *corev3.Node { return &corev3.Node{Id: nodeID} }

func packed(t testing.TB, typeURL string, m proto.Message) *anypb.Any {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	require.NoError(t, err)
	return &anypb.Any{TypeUrl: typeURL, Value: b}
}

// respond is a response with resources that have nothing but their names.
func respond(t testing.TB, typeURL, nonce string, names ...string) *discoveryv3.DeltaDiscoveryResponse {
	t.Helper()
	r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: nonce, SystemVersionInfo: "1"}
	for _, name := range names {
		r.Resources = append(r.Resources, &discoveryv3.Resource{
			Name: name, Version: "v-" + nonce,
			// all types of Envoy have their name first
			Resource: packed(t, typeURL, &clusterv3.Cluster{Name: name}),
		})
	}
	return r
}

func packedRaw(typeURL string, b []byte) *anypb.Any { return &anypb.Any{TypeUrl: typeURL, Value: b} }

func subscribe(typeURL string, names ...string) *discoveryv3.DeltaDiscoveryRequest {
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names}
}
