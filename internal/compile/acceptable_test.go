package compile

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// requireAcceptable checks what Envoy would refuse a whole response for: a domain that stands twice
// in a route table, an address of two listeners, two filter chains of one for the same connections,
// and addresses that were not filled in.
func requireAcceptable(t *rapid.T, s resource.State) {
	vhosts := 0
	for r := range s.Tables().All() {
		rc := &routev3.RouteConfiguration{}
		require.Len(t, r.Body(), r.Size())
		require.NoError(t, proto.Unmarshal(r.Body(), rc))
		vhosts += len(rc.GetVirtualHosts())
		seen := map[string]string{}
		for _, v := range rc.GetVirtualHosts() {
			for _, d := range v.GetDomains() {
				require.NotContains(t, seen, d, "%s and %s of %s", seen[d], v.GetName(), r.Name())
				seen[d] = v.GetName()
			}
		}
	}
	require.Equal(t, vhosts, s.Set(resource.VirtualHost).Len(), "each virtual host is in a table")
	requireApart(t, s)
	own := resource.Overlay{Pod: "127.5.0.1", App: "127.6.0.1", Outbound: "127.7.0.1"}
	for _, typ := range []resource.Type{resource.Cluster, resource.Listener} {
		for r := range s.Set(typ).All() {
			body := string(own.Body(typ, r))
			for _, placeholder := range []string{
				model.OwnPod, model.OwnApp, model.OwnOutbound, model.OwnAny4, model.OwnAny6,
			} {
				require.NotContains(t, body, placeholder, "%s %s", typ, r.Name())
			}
		}
	}
}

func requireApart(t *rapid.T, s resource.State) {
	addresses := map[string]string{}
	for r := range s.Set(resource.Listener).All() {
		l := &listenerv3.Listener{}
		require.NoError(t, proto.Unmarshal(r.Body(), l), r.Name())
		address := l.GetAddress().String()
		require.NotContains(t, addresses, address, "%s and %s", addresses[address], r.Name())
		addresses[address] = r.Name()
		matches := map[string]bool{}
		for _, c := range l.GetFilterChains() {
			match := c.GetFilterChainMatch().String()
			require.NotContains(t, matches, match, r.Name())
			matches[match] = true
		}
	}
}
