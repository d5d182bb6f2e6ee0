package serve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// crowd is a state with one cluster whose endpoints go as a collection.
func (f *fixture) crowd(generation uint64, endpoints int) resource.State {
	return f.crowdOf(generation, endpoints, func(int) string { return "" })
}

// crowdOf is a crowd whose endpoints show a text each.
func (f *fixture) crowdOf(generation uint64, endpoints int, text func(i int) string) resource.State {
	encode := func(m proto.Message) []byte {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		require.NoError(f.t, err)
		return b
	}
	var members []*resource.Resource
	for i := range endpoints {
		endpoint := &endpointv3.Endpoint{Hostname: fmt.Sprint("e", i) + text(i)}
		members = append(members, resource.New(fmt.Sprint("e", i), encode(&endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: endpoint},
		})))
	}
	head := encode(&endpointv3.ClusterLoadAssignment{ClusterName: "a"})
	group := resource.Group{
		Head:    encode(&endpointv3.LocalityLbEndpoints{Locality: &corev3.Locality{Zone: "z"}}),
		Members: f.store.Build(members...),
	}
	return f.clusters(generation, 1, "a").With(
		resource.Endpoint, f.store.Build(resource.NewAssignment("a", head, []resource.Group{group})),
	)
}

// collect takes the crowd, with all its members.
func (d deltaStream) collect(f *fixture) *resource.Collections {
	d.ack(d.recv())
	d.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: resource.Endpoint.URL(), ResourceNamesSubscribe: []string{"a"}})
	head := d.recv()
	collection := f.state.Set(resource.Endpoint).Get("a").Collections()
	require.Equal(d.t, collection.Open.Version().String(), head.GetResources()[0].GetVersion())
	d.send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: resource.LbEndpoint.URL(), ResourceNamesSubscribe: collection.Names(),
	})
	d.ack(head)
	members := d.recv()
	require.Len(d.t, members.GetResources(), collectionsFrom)
	d.ack(members)
	return collection
}

// TestStopSealsWhatClientsHave: a client of a server that ends reports, to whom it comes to next, a
// version of what it has, although that has just changed.
func TestStopSealsWhatClientsHave(t *testing.T) {
	f := newFixture(t)
	f.publish(f.crowd(1, collectionsFrom))
	idle, d := f.delta(nodeOf(reviewsID)), f.delta(nodeOf(reviewsID))
	idle.ack(idle.recv())
	collection := d.collect(f)
	f.eventually("everything is acknowledged", func() bool {
		settled := 0
		for _, c := range f.server.Clients() {
			for _, typ := range c.Types {
				if typ.Settled {
					settled++
				}
			}
		}
		return settled == 4 // clusters of both, endpoints and their collection of one
	})

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		f.server.Stop(t.Context())
	}()
	seal := d.recv()
	require.Equal(t, collection.Sealed.Version().String(), seal.GetResources()[0].GetVersion())
	d.ack(seal)
	d.fails(codes.Unavailable, "")
	idle.fails(codes.Unavailable, "")
	<-stopped
}

// TestStopDoesNotWaitForever: it goes on although somebody cannot be told.
func TestStopDoesNotWaitForever(t *testing.T) {
	f := newFixture(t)
	f.delta(nodeOf(reviewsID)).recv()
	f.eventually("the stream is known", func() bool { return len(f.server.Clients()) == 1 })
	f.server.mu.Lock()
	st := slices.Collect(maps.Keys(f.server.streams))[0]
	f.server.mu.Unlock()
	f.eventually("its own goroutine has answered", func() bool { return st.driver.now().phase == idle })
	st.driver.await() // as if a send were stuck
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	f.server.seal(ctx)
	require.True(t, st.driver.now().sealing)
	st.stop()
}
