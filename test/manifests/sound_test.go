package manifests

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// validated is a message with Envoy's own rules of its fields.
type validated interface {
	proto.Message
	ValidateAll() error
}

// requireSound requires of all resources what Envoy does: the rules of its fields, no domain twice
// in a route table, and no two chains of a listener with one match. Nothing was kept back for that:
// what cannot be translated is closed where it is read.
func requireSound(t require.TestingT, m *mesh) {
	require.Empty(t, m.kept)
	for member, p := range m.placed {
		for typ, set := range p.State.Sets() {
			if resource.Type(typ) == resource.Route {
				set = p.State.Tables()
			}
			for r := range set.All() {
				message := messageOf(resource.Type(typ))
				if message == nil {
					continue
				}
				require.NoError(t, proto.Unmarshal(p.Overlay.Body(resource.Type(typ), r), message))
				require.NoError(t, message.ValidateAll(), "%s %s", m.proxies[member], r.Name())
				switch message := message.(type) {
				case *routev3.RouteConfiguration:
					requireDomainsOnce(t, message)
				case *listenerv3.Listener:
					requireMatchesOnce(t, message)
				}
			}
		}
	}
}

func messageOf(t resource.Type) validated {
	switch t {
	case resource.Cluster:
		return &clusterv3.Cluster{}
	case resource.Endpoint:
		return &endpointv3.ClusterLoadAssignment{}
	case resource.Listener:
		return &listenerv3.Listener{}
	case resource.Route:
		return &routev3.RouteConfiguration{}
	case resource.VirtualHost:
		return &routev3.VirtualHost{}
	}
	return nil
}

func requireDomainsOnce(t require.TestingT, rc *routev3.RouteConfiguration) {
	owners := map[string]string{}
	for _, v := range rc.GetVirtualHosts() {
		for _, d := range v.GetDomains() {
			require.NotContains(t, owners, d, "%s and %s of %s", owners[d], v.GetName(), rc.GetName())
			owners[d] = v.GetName()
		}
	}
}

func requireMatchesOnce(t require.TestingT, l *listenerv3.Listener) {
	matches := map[string]string{}
	for _, c := range l.GetFilterChains() {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(c.GetFilterChainMatch())
		require.NoError(t, err)
		require.NotContains(t, matches, string(text), "%s and %s of %s", matches[string(text)], c.GetName(),
			l.GetName())
		matches[string(text)] = c.GetName()
	}
}
