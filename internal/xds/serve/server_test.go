package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	statusv1 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

func resourceNames(r *discoveryv3.DeltaDiscoveryResponse) []string {
	var out []string
	for _, res := range r.GetResources() {
		out = append(out, res.GetName())
	}
	slices.Sort(out)
	return out
}

func TestDeltaClientGetsWhatChanged(t *testing.T) {
	f := newFixture(t)
	d := f.delta(nodeOf(reviewsID))
	first := d.recv()
	require.Equal(t, []string{"a", "b"}, resourceNames(first))
	d.ack(first)

	f.publish(f.clusters(2, 1, "b", "c"))
	second := d.recv()
	require.Equal(t, []string{"c"}, resourceNames(second))
	for len(second.GetRemovedResources()) == 0 { // the session may hold removals back
		d.ack(second)
		second = d.recv()
	}
	require.Equal(t, []string{"a"}, second.GetRemovedResources())
	d.ack(second)

	record := <-f.hub.Finished()
	require.EqualValues(t, 2, record.Generation)
	require.Equal(t, 1, record.Proxies)
	require.Zero(t, record.Refused+record.Left+record.Waiting)
	require.Positive(t, record.Bytes)
	require.GreaterOrEqual(t, f.value("pilot_xds_pushes", "type", "cds"), 2.0)
	require.InDelta(t, 1, f.value("pilot_proxy_convergence_time"), 0)
}

func TestStateOfTheWorldClientGetsAll(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := f.client.StreamAggregatedResources(ctx)
	require.NoError(t, err)
	require.NoError(t, s.Send(&discoveryv3.DiscoveryRequest{Node: nodeOf(reviewsID), TypeUrl: resource.Cluster.URL()}))
	first, err := s.Recv()
	require.NoError(t, err)
	require.Len(t, first.GetResources(), 2)
	require.NotEmpty(t, first.GetVersionInfo())
	require.NoError(t, s.Send(&discoveryv3.DiscoveryRequest{
		TypeUrl: resource.Cluster.URL(), ResponseNonce: first.GetNonce(), VersionInfo: first.GetVersionInfo(),
	}))
	f.eventually("ACK", func() bool {
		c := f.server.Clients()
		return len(c) == 1 && c[0].Types[resource.Cluster].Acked == first.GetNonce()
	})
	f.publish(f.clusters(2, 1, "a", "b", "c"))
	second, err := s.Recv()
	require.NoError(t, err)
	require.Len(t, second.GetResources(), 3)
	require.Equal(t, resource.Cluster.URL(), second.GetResources()[0].GetTypeUrl())
}

func TestUnknownTypeGetsAnEmptyAnswer(t *testing.T) {
	f := newFixture(t)
	d := f.delta(nodeOf(reviewsID))
	d.ack(d.recv())
	d.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "type.googleapis.com/some.Thing"})
	r := d.recv()
	require.Equal(t, "type.googleapis.com/some.Thing", r.GetTypeUrl())
	require.NotEmpty(t, r.GetNonce())
	f.eventually("counted", func() bool { return f.value("pilot_xds_pushes", "type", "unknown") == 1 })
}

func TestExpiredNonceIsCounted(t *testing.T) {
	f := newFixture(t)
	d := f.delta(nodeOf(reviewsID))
	first := d.recv()
	d.ack(first)
	f.publish(f.clusters(2, 1, "a", "b", "c"))
	d.ack(d.recv())
	require.Zero(t, f.value("pilot_xds_expired_nonce"))
	d.ack(first)
	f.eventually("counted", func() bool { return f.value("pilot_xds_expired_nonce") == 1 })
}

func TestClientsTellWhoIsConnected(t *testing.T) {
	f := newFixture(t)
	node := nodeOf(reviewsID)
	node.Metadata = metadataOf(t, map[string]any{"ISTIO_VERSION": "1.31.1"})
	d := f.delta(node)
	r := d.recv()
	f.eventually("connected", func() bool { return len(f.server.Clients()) == 1 })
	c := f.server.Clients()[0]
	require.Equal(t, "reviews-v1-0.default-1", c.ConnectionID)
	require.Equal(t, "reviews-v1-0.default", c.Node.Name)
	require.Equal(t, session.Delta, c.Protocol)
	require.Equal(t, "127.0.0.2", c.Overlay.Pod)
	require.True(t, f.state == c.State)
	require.False(t, c.Behind)
	require.Equal(t, "bufconn", c.Address)
	require.Equal(t, r.GetNonce(), c.Types[resource.Cluster].Sent)
	require.InDelta(t, 1, f.value("pilot_xds", "version", "1.31.1"), 0)

	d.cancel()
	f.eventually("gone", func() bool { return f.hub.Connections(class) == 0 && f.value("pilot_xds") == 0 })
	require.Empty(t, f.server.Clients())
}

func TestNackIsCountedAndLogged(t *testing.T) {
	f := newFixture(t)
	d := f.delta(nodeOf(reviewsID))
	r := d.recv()
	d.send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce(),
		ErrorDetail: &statusv1.Status{Code: int32(codes.Internal), Message: "Error adding/updating cluster(s) a: bad"},
	})
	f.eventually("counted", func() bool { return f.value("pilot_total_xds_rejects", "type", "cds") == 1 })
	f.eventually("counted by node", func() bool {
		return f.value("pilot_xds_cds_reject", "node", "reviews-v1-0.default", "err", "Internal") == 1
	})
	f.eventually("logged", func() bool {
		return strings.Contains(f.log.String(), "Error adding/updating cluster(s) a: bad")
	})
	d.cancel()
	f.eventually("a node's series go with it", func() bool { return f.value("pilot_xds_cds_reject") == 0 })
}

func TestBadNodeIsToldWhatIsRight(t *testing.T) {
	f := newFixture(t)
	f.delta(nodeOf("reviews")).fails(
		codes.InvalidArgument, `node id "reviews" has 1 fields between ~; want "type~ip~pod.namespace~domain"`,
	)
	f.delta(nil).fails(codes.InvalidArgument, "the stream's first request has no node id")
	require.InDelta(t, 2, f.value("lateen_xds_refused_streams_total", "code", "InvalidArgument"), 0)
	require.Zero(t, f.hub.Connections(class))
}

func TestRegistrarsErrorReachesTheClient(t *testing.T) {
	f := newFixture(t)
	f.refuse(errors.New("not ready"))
	f.delta(nodeOf(reviewsID)).fails(codes.Unavailable, "not ready")
	f.refuse(status.Error(codes.NotFound, "no such pod"))
	f.delta(nodeOf(reviewsID)).fails(codes.NotFound, "no such pod")
}

type tokens map[string]Identity

func (a tokens) Screen(context.Context, metadata.MD) error { return nil }

func (a tokens) Authenticate(_ context.Context, md metadata.MD) (Identity, error) {
	for _, token := range md.Get("authorization") {
		if id, ok := a[token]; ok {
			return id, nil
		}
	}
	return Identity{}, errors.New("no credential is valid")
}

func TestIdentityIsProvenAndMustMatch(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Authenticator = tokens{
			"Bearer reviews": {TrustDomain: "cluster.local", Namespace: "default", ServiceAccount: "reviews"},
		}
	})
	f.delta(nodeOf(reviewsID)).fails(codes.Unauthenticated, "no credential is valid")

	with := func(id string) deltaStream {
		ctx, cancel := context.WithCancel(
			metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer reviews"),
		)
		s, err := f.client.DeltaAggregatedResources(ctx)
		require.NoError(t, err)
		d := deltaStream{t, s, cancel}
		d.send(&discoveryv3.DeltaDiscoveryRequest{Node: nodeOf(id), TypeUrl: resource.Cluster.URL()})
		return d
	}
	with(
		"sidecar~127.0.0.2~x-0.other~other.svc.cluster.local",
	).fails(codes.PermissionDenied, `claims namespace "other"`)
	require.Zero(t, f.hub.Connections(class))
	d := with(reviewsID)
	d.recv()
	require.Equal(t, "spiffe://cluster.local/ns/default/sa/reviews", f.server.Clients()[0].Identity.String())
}

// stuff publishes a state that a client which is not Envoy gets as three responses of 3 MB: the
// first is buffered, the second waits until the client reads.
func (f *fixture) stuff() {
	f.publish(f.clusters(2, 3_000_000, "x", "y", "z"))
	f.eventually("all have taken it up", func() bool {
		return !slices.ContainsFunc(f.server.Clients(), func(c Client) bool { return c.State.Generation() < 2 })
	})
}

func slowNode() *corev3.Node { return &corev3.Node{Id: reviewsID, UserAgentName: "slow"} }

func TestSendThatTakesTooLongEndsTheStream(t *testing.T) {
	f := newFixture(
		t,
		func(o *Options) { o.Limits.Write = 2 * time.Second },
	) // the first response has to be written in it
	d := f.delta(slowNode())
	d.ack(d.recv())
	f.stuff()
	f.eventually(
		"ended",
		func() bool { return f.value("pilot_xds_write_timeout") == 1 && f.hub.Connections(class) == 0 },
	)
	require.InDelta(t, 1, f.value("pilot_xds_pushes", "type", "cds_senderr"), 0)
	d.fails(codes.Canceled, "")
	f.logged(errWriteTimeout.Error())
}

// The throttle has one turn here; a client that does not read must not keep it from others.
func TestStalledClientGivesItsSlotBack(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.Write = time.Hour })
	stalled, reader := f.delta(slowNode()), f.delta(nodeOf("sidecar~127.0.0.3~b.default~default.svc.cluster.local"))
	stalled.ack(stalled.recv())
	reader.ack(reader.recv())
	f.eventually("both connected", func() bool { return len(f.server.Clients()) == 2 })
	f.stuff()
	f.publish(f.clusters(3, 1, "done"))
	for {
		r := reader.recv()
		reader.ack(r)
		if slices.Contains(resourceNames(r), "done") {
			break
		}
	}
	i := slices.IndexFunc(f.server.Clients(), func(c Client) bool { return c.Node.UserAgent == "slow" })
	require.True(t, f.server.Clients()[i].Behind)
	stalled.cancel()
	reader.cancel()
	f.eventually("gone", func() bool { return f.hub.Connections(class) == 0 })
}

func TestTooManyStreamsAtOnceAreRefused(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.StreamsPerSecond = 0.001 }) // however late the second comes
	d := f.delta(nodeOf(reviewsID))
	d.recv()
	f.delta(nodeOf(reviewsID)).fails(codes.ResourceExhausted, "too many streams begin at once")
}

func TestSilentStreamIsEnded(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.FirstRequest = time.Millisecond })
	s, err := f.client.DeltaAggregatedResources(t.Context())
	require.NoError(t, err)
	_, err = s.Recv()
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
}

func TestRequestOverTheLimitIsRefused(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.ReceiveBytes = 1000 })
	d := f.delta(nodeOf(reviewsID))
	d.ack(d.recv())
	d.send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: resource.Endpoint.URL(), ResourceNamesSubscribe: []string{string(make([]byte, 2000))},
	})
	d.fails(codes.ResourceExhausted, "received message larger than max")
	require.Less(t, f.value("pilot_xds_recv_max"), 1000.0)
}

// A proxy that comes back to another replica names all that it has: with 40,000 resources that is
// more than gRPC's usual 4 MiB.
func TestComingBackWithFortyThousandResources(t *testing.T) {
	f := newFixture(t)
	has := map[string]string{}
	for i := range 40_000 {
		name := fmt.Sprintf("outbound|8080||service-%05d.%s.svc.cluster.local", i, strings.Repeat("n", 50))
		has[name] = "0123456789abcdef01234567"
	}
	first := &discoveryv3.DeltaDiscoveryRequest{
		Node: nodeOf(reviewsID), TypeUrl: resource.Cluster.URL(), InitialResourceVersions: has,
	}
	require.Greater(t, proto.Size(first), 4<<20)
	s, err := f.client.DeltaAggregatedResources(t.Context())
	require.NoError(t, err)
	d := deltaStream{t: t, stream: s}
	d.send(first)
	removed, got := 0, 0
	for got == 0 || removed < len(has) {
		r := d.recv()
		got, removed = got+len(r.GetResources()), removed+len(r.GetRemovedResources())
		d.ack(r)
	}
	require.Equal(t, 2, got, "what there is")
	require.Equal(t, len(has), removed, "what there is no more")
}

func TestStopEndsStreams(t *testing.T) {
	f := newFixture(t)
	d := f.delta(nodeOf(reviewsID))
	d.recv()
	f.server.Stop(t.Context())
	require.Zero(t, f.hub.Connections(class), "Stop returns when all streams have ended")
	d.fails(codes.Unavailable, "")
}

type faulty struct{}

func (faulty) Connect(context.Context, *Node, Identity) (*fanout.Conn, error) { panic("bug") }

func TestBugEndsOneStreamOnly(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Registrar = faulty{} })
	f.delta(nodeOf(reviewsID)).fails(codes.Internal, "internal error")
	require.InDelta(t, 1, f.value("pilot_total_xds_internal_errors"), 0)
	f.logged("panic=bug")
}

// TestBugLeavesTheStreamReadable: who lists the clients, and who looks at sends, does not wait for
// a session that failed.
func TestBugLeavesTheStreamReadable(t *testing.T) {
	st := &stream{server: newFixture(t).server}
	require.Panics(t, func() { st.step(func() []session.Response { panic("bug") }) })
	require.True(t, st.mu.TryLock())
	st.mu.Unlock()
	require.Panics(t, func() { _, _ = st.transmit(nil, time.Now()) })
	st.server.sendWatch.mu.Lock()
	require.Nil(t, st.server.sendWatch.first)
	st.server.sendWatch.mu.Unlock()
}
