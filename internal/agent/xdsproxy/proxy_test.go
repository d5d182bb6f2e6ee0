package xdsproxy

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

func TestMessagesPassUnchanged(t *testing.T) {
	up := startControlPlane(t, "127.0.0.1:0")
	e := startProxy(t, up.address).envoy()
	asked := &discoveryv3.DeltaDiscoveryRequest{
		Node: node(), TypeUrl: typeurl.Cluster,
		InitialResourceVersions: map[string]string{"a": "1"}, ResourceNamesUnsubscribe: []string{"b"},
	}
	e.ask(asked)
	u := up.accept()
	require.True(t, proto.Equal(asked, u.next()))
	md, _ := metadata.FromIncomingContext(u.Context())
	require.Equal(t, []string{"Kubernetes"}, md.Get("ClusterID"))

	// one message is larger than a window, to see that nothing depends on buffers
	given := respond(t, typeurl.Cluster, "1", "a", strings.Repeat("b", 1<<19))
	given.RemovedResources = []string{"c"}
	u.give(given)
	require.True(t, proto.Equal(given, e.next()))
	e.ack(given)
	require.Equal(t, "1", u.next().GetResponseNonce())

	u.done <- grpcstatus.Error(codes.PermissionDenied, "no")
	_, err := e.Recv()
	require.Equal(t, codes.PermissionDenied, grpcstatus.Code(err))
}

func TestEnvoyWaitsForTheControlPlane(t *testing.T) {
	up := startControlPlane(t, "127.0.0.1:0")
	up.stop()
	r := startProxy(t, up.address)
	e := r.envoy()
	e.ask(&discoveryv3.DeltaDiscoveryRequest{Node: node(), TypeUrl: typeurl.Cluster})
	e.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeurl.Listener})
	up = startControlPlane(t, up.address)
	u := up.accept()
	require.Equal(t, nodeID, u.next().GetNode().GetId())
	u.done <- grpcstatus.Error(codes.Unavailable, "not ready yet")

	u = up.accept()
	require.Equal(t, nodeID, u.next().GetNode().GetId())
	require.Equal(t, typeurl.Listener, u.next().GetTypeUrl())
	require.False(t, r.proxy.Stats().Connected)
	u.give(respond(t, typeurl.Cluster, "1", "a"))
	require.Equal(t, "1", e.next().GetNonce())
	require.True(t, r.proxy.Stats().Connected)

	up.stop()
	_, err := e.Recv()
	require.Equal(t, codes.Unavailable, grpcstatus.Code(err), "what was asked may have changed since: Envoy asks again")
}

func TestAcceptedWhenClustersAndListenersAre(t *testing.T) {
	up := startControlPlane(t, "127.0.0.1:0")
	accepted := make(chan struct{}, 2)
	r := startProxy(t, up.address, func(o *Options) { o.Accepted = func() { accepted <- struct{}{} } })
	e := r.envoy()
	e.ask(&discoveryv3.DeltaDiscoveryRequest{Node: node(), TypeUrl: typeurl.Cluster})
	u := up.accept()
	u.give(respond(t, typeurl.Cluster, "1", "a"))
	e.ack(e.next())
	u.give(respond(t, typeurl.Listener, "2", "a"))
	refusal := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeurl.Listener, ResponseNonce: "2"}
	refusal.ErrorDetail = &status.Status{Message: "no"}
	e.next()
	e.ask(refusal)
	for range 3 {
		u.next()
	}
	require.False(t, r.proxy.Accepted())
	u.give(respond(t, typeurl.Listener, "3", "a"))
	e.ack(e.next())
	receive(t, accepted)
	require.True(t, r.proxy.Accepted())
	require.Empty(t, accepted)
}

func TestNewStreamEndsTheOlder(t *testing.T) {
	up := startControlPlane(t, "127.0.0.1:0")
	r := startProxy(t, up.address)
	older := r.envoy()
	older.ask(&discoveryv3.DeltaDiscoveryRequest{Node: node(), TypeUrl: typeurl.Cluster})
	first := up.accept()
	r.envoy().ask(&discoveryv3.DeltaDiscoveryRequest{Node: node(), TypeUrl: typeurl.Cluster})
	_, err := older.Recv()
	require.Equal(t, codes.Aborted, grpcstatus.Code(err))
	<-first.Context().Done()
	up.accept()
}

func TestStreamEndsWithEnvoy(t *testing.T) {
	up := startControlPlane(t, "127.0.0.1:0")
	r := startProxy(t, up.address)
	e := r.envoy()
	e.ask(&discoveryv3.DeltaDiscoveryRequest{Node: node(), TypeUrl: typeurl.Cluster})
	u := up.accept()
	require.NoError(t, e.CloseSend())
	<-u.Context().Done()
}

const table = "type.googleapis.com/istio.networking.nds.v1.NameTable"

func TestHooksSubscribeOnTheStreamOfEnvoy(t *testing.T) {
	up := startControlPlane(t, "127.0.0.1:0")
	updates := make(chan Update, 1)
	refuse := errors.New("no good table")
	file := filepath.Join(t.TempDir(), "cache")
	hook := func(o *Options) {
		o.Hooks = []Hook{{TypeURL: table, Names: []string{"*"}, Apply: func(u Update) error {
			updates <- u
			if len(u.Resources) > 0 && string(u.Resources[0].Body) == "bad" {
				return refuse
			}
			return nil
		}}}
	}
	r := startProxy(t, up.address, hook, withCache(file))
	e := r.envoy()
	e.ask(&discoveryv3.DeltaDiscoveryRequest{Node: node(), TypeUrl: typeurl.Cluster})
	e.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeurl.Listener})
	u := up.accept()
	u.next()
	u.next()
	own := u.next()
	require.Equal(t, table, own.GetTypeUrl())
	require.Equal(t, []string{"*"}, own.GetResourceNamesSubscribe())

	tables := func(nonce, body string, removed ...string) *discoveryv3.DeltaDiscoveryResponse {
		g := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: table, Nonce: nonce, RemovedResources: removed}
		one := respond(t, table, nonce, "a").GetResources()[0]
		one.Resource.Value = []byte(body)
		g.Resources = append(g.Resources, one)
		return g
	}
	u.give(tables("1", "good", "b"))
	got := receive(t, updates)
	require.Equal(t, Update{
		Resources: []Resource{{Name: "a", Version: "v-1", Body: []byte("good")}}, Removed: []string{"b"},
	}, got)
	require.Equal(t, "1", u.next().GetResponseNonce())
	u.give(tables("2", "bad"))
	receive(t, updates)
	answer := u.next()
	require.Equal(t, refuse.Error(), answer.GetErrorDetail().GetMessage())
	require.Equal(t, int32(codes.InvalidArgument), answer.GetErrorDetail().GetCode())

	u.give(respond(t, "istio.io/other", "3", "a"))
	u.give(respond(t, typeurl.Cluster, "4", "a"))
	require.Equal(t, "4", e.next().GetNonce(), "what nobody asked for is dropped")

	r.cancel()
	r = startProxy(t, up.address, hook, withCache(file))
	require.Equal(t, Update{
		Whole: true, Resources: []Resource{{Name: "a", Version: "v-1", Body: []byte("good")}},
	}, receive(t, updates))
	r.envoy().ask(&discoveryv3.DeltaDiscoveryRequest{Node: node(), TypeUrl: typeurl.Listener})
	u = up.accept()
	u.next()
	require.Equal(t, map[string]string{"a": "v-1"}, u.next().GetInitialResourceVersions())
}

// TestHealthIsToldOnEachStream after Envoy has asked for listeners, and again when it changes.
func TestHealthIsToldOnEachStream(t *testing.T) {
	up := startControlPlane(t, "127.0.0.1:0")
	r := startProxy(t, up.address)
	begin := func() *upstream {
		e := r.envoy()
		e.ask(&discoveryv3.DeltaDiscoveryRequest{Node: node(), TypeUrl: typeurl.Cluster})
		e.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeurl.Listener})
		u := up.accept()
		require.Equal(t, typeurl.Cluster, u.next().GetTypeUrl())
		require.Equal(t, typeurl.Listener, u.next().GetTypeUrl())
		return u
	}
	u := begin()
	r.proxy.TellHealth(true, "")
	told := u.next()
	require.Equal(t, healthType, told.GetTypeUrl())
	require.Nil(t, told.GetErrorDetail())
	r.proxy.TellHealth(false, strings.Repeat("\u00e9", 600)+"\xff")
	require.Equal(t, strings.Repeat("\u00e9", 512), u.next().GetErrorDetail().GetMessage(), "what protobuf takes")
	r.proxy.TellHealth(false, "connection refused")
	require.Equal(t, "connection refused", u.next().GetErrorDetail().GetMessage())

	u = begin() // of an Envoy that has started anew
	told = u.next()
	require.Equal(t, healthType, told.GetTypeUrl())
	require.Equal(t, "connection refused", told.GetErrorDetail().GetMessage())
}
