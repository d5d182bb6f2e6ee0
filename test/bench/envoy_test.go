package bench

import (
	"context"
	"errors"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// envoy is as much of a proxy as it takes to be served: it asks as Envoy does, acknowledges
// everything, and keeps nothing.
type envoy struct {
	tb     testing.TB
	stream grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
	table  string // the one route table that it asks for
	// asked are the clusters whose endpoints it has asked for; the next three tell whether it has
	// asked for listeners, routes and virtual hosts.
	asked                  map[string]bool
	listens, routes, hosts bool
	got                    map[string]bool // type URLs of responses
	ended                  chan struct{}
}

// connectEnvoy opens a stream and returns when it is loaded.
func connectEnvoy(tb testing.TB, address string, p meshgen.Proxy, replica int) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	require.NoError(tb, err)
	e := &envoy{
		tb:     tb,
		stream: stream,
		table:  "http_proxy",
		asked:  map[string]bool{},
		got:    map[string]bool{},
		ended:  make(chan struct{}),
	}
	if p.Gateway {
		e.table = "http.80"
	}
	id, metadata := nodeOf(p, replica)
	fields, err := structpb.NewStruct(metadata)
	require.NoError(tb, err)
	node := &corev3.Node{
		Id: id, UserAgentName: "envoy", Metadata: fields,
		UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
			Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40},
		}},
	}
	require.NoError(tb, stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: resource.Cluster.URL()}))
	for !e.loaded() {
		r, err := stream.Recv()
		require.NoError(tb, err)
		require.NoError(tb, e.answer(r))
	}
	go e.run()
	tb.Cleanup(func() {
		cancel()
		<-e.ended
		require.NoError(tb, conn.Close())
	})
}

// loaded tells that it has had a response of each type that it has asked for, the last of which are
// virtual hosts.
func (e *envoy) loaded() bool {
	return e.got[resource.VirtualHost.URL()] && (e.got[resource.Endpoint.URL()] || len(e.asked) == 0)
}

func (e *envoy) run() {
	defer close(e.ended)
	for {
		r, err := e.stream.Recv()
		if err != nil || e.answer(r) != nil {
			return
		}
	}
}

// answer acknowledges, and asks for what the response names.
func (e *envoy) answer(r *discoveryv3.DeltaDiscoveryResponse) error {
	err := e.stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()})
	e.got[r.GetTypeUrl()] = true
	switch r.GetTypeUrl() {
	case resource.Cluster.URL():
		var fresh []string
		for _, c := range r.GetResources() {
			if !e.asked[c.GetName()] {
				e.asked[c.GetName()] = true
				fresh = append(fresh, c.GetName())
			}
		}
		if len(fresh) > 0 {
			err = errors.Join(err, e.ask(resource.Endpoint, fresh...))
		}
		if !e.listens {
			e.listens = true
			err = errors.Join(err, e.ask(resource.Listener))
		}
	case resource.Listener.URL():
		if !e.routes {
			e.routes = true
			err = errors.Join(err, e.ask(resource.Route, e.table))
		}
	case resource.Route.URL():
		if !e.hosts {
			e.hosts = true
			err = errors.Join(err, e.ask(resource.VirtualHost))
		}
	}
	return err
}

func (e *envoy) ask(t resource.Type, names ...string) error {
	return e.stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: t.URL(), ResourceNamesSubscribe: names})
}
