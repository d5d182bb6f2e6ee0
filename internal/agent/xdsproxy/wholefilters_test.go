package xdsproxy

import (
	"errors"
	"net"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// wholeControlPlane has one response of the state of the world.
type wholeControlPlane struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	response *discoveryv3.DiscoveryResponse
}

func (c wholeControlPlane) StreamAggregatedResources(
	s grpc.BidiStreamingServer[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse],
) error {
	if _, err := s.Recv(); err != nil {
		return err
	}
	if err := s.Send(c.response); err != nil {
		return err
	}
	<-s.Context().Done()
	return s.Context().Err()
}

func TestFiltersOfTheStateOfTheWorldComeTogether(t *testing.T) {
	delta := filterResponse(t, "1", "a module 1", "policies plain 1", "b module 1")
	whole := &discoveryv3.DiscoveryResponse{TypeUrl: typeurl.Filter, Nonce: "1", VersionInfo: "1"}
	for _, of := range delta.GetResources() {
		whole.Resources = append(whole.Resources, of.GetResource())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, wholeControlPlane{response: whole})
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-served })

	m := newModuleFilters()
	r := startProxy(t, l.Addr().String(), func(o *Options) { o.Filters = m })
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.conn).StreamAggregatedResources(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Send(&discoveryv3.DiscoveryRequest{Node: node(), TypeUrl: typeurl.Filter}))
	receive(t, m.attempts).result <- nil
	receive(t, m.attempts).result <- errors.New("there is no registry")
	got, err := s.Recv()
	require.NoError(t, err)
	require.Equal(t, "1", got.GetNonce())
	require.Equal(t, []string{"a fetched", "policies plain", "b fallback"}, m.noted())
	types := func(of *anypb.Any) string { return filterIn(of.GetValue()).GetTypedConfig().GetTypeUrl() }
	require.Equal(t, fakeType+"fetched", types(got.GetResources()[0]))
	require.Equal(t, fakeType+"fallback", types(got.GetResources()[2]))
}
