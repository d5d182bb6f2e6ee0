package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// bound proves the Pod that the call's metadata names.
type bound struct{}

func (bound) Screen(_ context.Context, md metadata.MD) error {
	if len(md.Get("pod")) == 0 {
		return errors.New("want a credential")
	}
	return nil
}

func (bound) Authenticate(_ context.Context, md metadata.MD) (Identity, error) {
	return Identity{
		TrustDomain: "cluster.local", Namespace: "default", ServiceAccount: "default", Pod: md.Get("pod")[0],
	}, nil
}

func asPods(o *Options) { o.Authenticator = bound{} }

// deltaOf opens a stream as a Pod that is proven.
func (f *fixture) deltaOf(pod string, r *discoveryv3.DeltaDiscoveryRequest) deltaStream {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(f.t.Context(), "pod", pod))
	s, err := f.client.DeltaAggregatedResources(ctx)
	require.NoError(f.t, err)
	if r.GetNode() == nil {
		r.Node = nodeOf("sidecar~127.0.0.2~" + pod + ".default~default.svc.cluster.local")
	}
	d := deltaStream{f.t, s, cancel}
	d.send(r)
	return d
}

func clusterRequest() *discoveryv3.DeltaDiscoveryRequest {
	return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: resource.Cluster.URL()}
}

func TestPodHasLimitedStreams(t *testing.T) {
	f := newFixture(t, asPods)
	var open []deltaStream
	for range podStreams {
		d := f.deltaOf("a", clusterRequest())
		d.ack(d.recv())
		open = append(open, d)
	}
	f.deltaOf("a", clusterRequest()).fails(codes.ResourceExhausted,
		"spiffe://cluster.local/ns/default/sa/default pod a "+
			"has 16 streams, which is the limit; want one for each proxy")
	require.Equal(t, 1.0, f.value("lateen_xds_limited_total", "limit", "streams"))
	other := f.deltaOf("b", clusterRequest())
	other.ack(other.recv())
	for _, d := range open {
		d.cancel()
	}
	f.eventually("ended", func() bool { return f.hub.Connections(class) == 1 })
	f.eventually("given back", func() bool {
		d := f.deltaOf("a", clusterRequest())
		_, err := d.stream.Recv()
		return err == nil
	})
}

func TestPodSubscribesToLimitedNames(t *testing.T) {
	f := newFixture(t, asPods)
	r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: resource.Endpoint.URL()}
	for i := range podNames + freeNames + 100 {
		r.ResourceNamesSubscribe = append(r.ResourceNamesSubscribe, fmt.Sprint("n", i))
	}
	f.deltaOf("a", r).fails(codes.ResourceExhausted, "names that do not exist; want 20000 at most")
	require.Equal(t, 1.0, f.value("lateen_xds_limited_total", "limit", "names"))
	r.ResourceNamesSubscribe = r.GetResourceNamesSubscribe()[:podNames]
	r.Node = nil
	d := f.deltaOf("b", r)
	d.recv()
	require.NotEmpty(t, f.server.Clients())
}

func TestNameIsShort(t *testing.T) {
	f := newFixture(t)
	for _, filler := range []int{0, listsFrom} { // lists are read in another way in a large request
		d := f.delta(nodeOf(reviewsID))
		d.ack(d.recv())
		d.send(&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl:                resource.Endpoint.URL(),
			ResponseNonce:          strings.Repeat("x", filler),
			ResourceNamesSubscribe: []string{strings.Repeat("n", maxName+1)},
		})
		d.fails(codes.Internal, "a resource name has 1025 bytes; want 1024 at most")
	}
}

func TestNodeIsLimited(t *testing.T) {
	f := newFixture(t, asPods)
	node := nodeOf("sidecar~127.0.0.2~a.default~default.svc.cluster.local")
	large, err := structpb.NewStruct(map[string]any{"X": strings.Repeat("x", maxNode)})
	require.NoError(t, err)
	node.Metadata = large
	r := clusterRequest()
	r.Node = node
	f.deltaOf("a", r).fails(codes.ResourceExhausted, "the node has ")
	node.Metadata = nil
	d := f.deltaOf("a", r)
	d.ack(d.recv())
}

func TestPodMakesLimitedClasses(t *testing.T) {
	f := newFixture(t, asPods, func(o *Options) {
		o.MakesClass = func(context.Context, *Node, Identity) bool { return true }
		now := time.Now()
		o.Now = func() time.Time { return now }
	})
	for range podClasses {
		d := f.deltaOf("a", clusterRequest())
		d.ack(d.recv())
	}
	f.deltaOf("a", clusterRequest()).fails(codes.ResourceExhausted, "10 new configurations within a minute")
	d := f.deltaOf("b", clusterRequest())
	d.ack(d.recv())
}

// While there is no memory streams wait; one without a credential does not.
func TestStreamWithoutCredentialTakesNoPlace(t *testing.T) {
	f := newFixture(t, asPods, func(o *Options) { o.Limits.MemoryTight = func() bool { return true } })
	f.delta(nodeOf(reviewsID)).fails(codes.Unauthenticated, "want a credential")
}

// from is a connection of an address.
type from struct {
	net.Conn
	addr net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.addr }

// Close is called by the server when it stops.
func (from) Close() error { return nil }

func TestAddressHasLimitedConnections(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.StreamsPerAddress = 2 })
	at := func(ip string, port int) net.Conn { return from{addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: port}} }
	leave, err := f.server.admitConnection(at("10.0.0.1", 1))
	require.NoError(t, err)
	_, err = f.server.admitConnection(at("::ffff:10.0.0.1", 2))
	require.NoError(t, err)
	_, err = f.server.admitConnection(at("10.0.0.1", 3))
	require.EqualError(t, err, "10.0.0.1 has 2 connections, which is the limit; want one for each proxy")
	require.Equal(t, 1.0, f.value("lateen_xds_limited_total", "limit", "connections"))
	_, err = f.server.admitConnection(at("10.0.0.2", 1))
	require.NoError(t, err)
	leave()
	_, err = f.server.admitConnection(at("10.0.0.1", 4))
	require.NoError(t, err)
	for i := range 10 {
		_, err = f.server.admitConnection(at("127.0.0.1", i))
		require.NoError(t, err, "this machine's own have no limit")
	}
	f.server.limits.StreamsPerAddress = -1
	_, err = f.server.admitConnection(at("10.0.0.1", 5))
	require.NoError(t, err)
}

func TestAddressHasAShareOfThePlaces(t *testing.T) {
	f := newFixture(t)
	one := &stream{server: f.server, owner: owner{peer: netip.MustParseAddr("10.0.0.1")}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := one.enterShare(ctx); err != nil {
				ended <- err
				return
			}
		}
	}()
	f.eventually("one waits for itself", func() bool { return f.value("lateen_xds_waiting_streams") == 1 })
	other := &stream{server: f.server, owner: owner{peer: netip.MustParseAddr("10.0.0.2")}}
	leave, err := other.enterShare(t.Context())
	require.NoError(t, err)
	leave()
	require.NoError(t, other.awaitTurn(t.Context()))
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}
