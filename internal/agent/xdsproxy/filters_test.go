package xdsproxy

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// slowFilters rewrites filters whose names begin with "slow". Each waits for a result.
type slowFilters struct{ results chan error }

func filterIn(resource []byte) *corev3.TypedExtensionConfig {
	f := &corev3.TypedExtensionConfig{}
	if proto.Unmarshal(resource, f) != nil {
		return nil
	}
	return f
}

func (s slowFilters) Fetches(resource []byte) bool {
	return strings.HasPrefix(filterIn(resource).GetName(), "slow")
}

func (s slowFilters) Rewrite(ctx context.Context, resource []byte) ([]byte, error) {
	f := filterIn(resource)
	if !s.Fetches(resource) {
		return resource, nil
	}
	var err error
	select {
	case err = <-s.results:
	case <-ctx.Done():
		err = ctx.Err()
	}
	f.TypedConfig = &anypb.Any{TypeUrl: "type.googleapis.com/fetched"}
	if err != nil {
		f.TypedConfig.TypeUrl = "type.googleapis.com/fallback"
	}
	out, _ := proto.Marshal(f)
	return out, err
}

func filterResponse(t *testing.T, nonce string, names ...string) *discoveryv3.DeltaDiscoveryResponse {
	out := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeurl.Filter, Nonce: nonce, SystemVersionInfo: "s"}
	for _, name := range names {
		packed, err := anypb.New(&corev3.TypedExtensionConfig{Name: name})
		require.NoError(t, err)
		out.Resources = append(out.Resources, &discoveryv3.Resource{Name: name, Version: "1", Resource: packed})
	}
	return out
}

// typesOf are the filters of a response: name and type.
func typesOf(t *testing.T, r *discoveryv3.DeltaDiscoveryResponse) (all []string) {
	for _, of := range r.GetResources() {
		f := &corev3.TypedExtensionConfig{}
		require.NoError(t, of.GetResource().UnmarshalTo(f))
		require.Equal(t, of.GetName(), f.GetName())
		isFallback := strings.HasSuffix(f.GetTypedConfig().GetTypeUrl(), "/fallback")
		require.Equal(t, isFallback, of.GetVersion() != "1", of.GetVersion())
		all = append(all, f.GetName()+" "+strings.TrimPrefix(f.GetTypedConfig().GetTypeUrl(), "type.googleapis.com/"))
	}
	return all
}

func TestFiltersThatWaitHoldUpNoOtherType(t *testing.T) {
	c := startControlPlane(t, "127.0.0.1:0")
	filters := slowFilters{make(chan error)}
	p := startProxy(t, c.address, func(o *Options) { o.Filters = filters })
	e := p.envoy()
	e.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeurl.Filter})
	u := c.accept()
	u.next()
	u.give(filterResponse(t, "1", "fast"))
	require.Equal(t, []string{"fast "}, typesOf(t, e.next()))
	u.give(filterResponse(t, "2", "slow", "fast"))
	u.give(filterResponse(t, "3", "fast"))
	u.give(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeurl.Cluster, Nonce: "4"})
	require.Equal(t, "4", e.next().GetNonce())
	filters.results <- nil
	second := e.next()
	require.Equal(t, []string{"slow fetched", "fast "}, typesOf(t, second))
	require.Equal(t, "2", second.GetNonce())
	require.Equal(t, "s", second.GetSystemVersionInfo())
	require.Equal(t, "3", e.next().GetNonce(), "filters keep their order")
}

func TestFiltersThatFailAreTriedAgain(t *testing.T) {
	filters := slowFilters{make(chan error, 2)}
	c := startControlPlane(t, "127.0.0.1:0")
	p := startProxy(t, c.address, func(o *Options) { o.Filters, o.FilterRetry = filters, 1 })
	e := p.envoy()
	e.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeurl.Filter})
	u := c.accept()
	u.next()
	filters.results <- errors.New("there is no registry")
	u.give(filterResponse(t, "1", "slow"))
	require.Equal(t, []string{"slow fallback"}, typesOf(t, e.next()))
	filters.results <- nil
	again := e.next()
	require.Equal(t, []string{"slow fetched"}, typesOf(t, again))
	require.True(t, isOwnNonce(again.GetNonce()))

	// The control plane has not sent it: it is told what else the request says alone.
	e.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeurl.Filter, ResponseNonce: again.GetNonce()})
	e.ask(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: typeurl.Filter, ResponseNonce: again.GetNonce(), ResourceNamesSubscribe: []string{"other"},
	})
	q := u.next()
	require.Empty(t, q.GetResponseNonce())
	require.Equal(t, []string{"other"}, q.GetResourceNamesSubscribe())
}
