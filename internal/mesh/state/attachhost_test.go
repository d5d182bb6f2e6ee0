package state

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// TestRoutesLeadToHostsOfTheirNamespaceAlone: a host that a route names as such (Istio's Hostname)
// needs no grant, and leads nowhere unless the route's namespace has it.
func TestRoutesLeadToHostsOfTheirNamespaceAlone(t *testing.T) {
	const host model.Host = "admin.b.svc.cluster.local"
	w := NewWriter()
	claim := func(kind kinds.Kind, namespace string) Update {
		m := model.Meta{Kind: kind, Namespace: namespace, Name: "admin"}
		return Update{Key: m.Key(), Objects: []model.Object{&model.Service{
			Meta: m, Host: host, ExportTo: model.Exports{All: true},
			Ports: []model.ServicePort{{Name: "http", Port: 80}},
		}}}
	}
	m := model.Meta{Kind: kinds.HTTPRoute, Namespace: "a", Name: "r"}
	to := model.Destination{Host: host, Port: 80, Weight: 1}
	route := Update{Key: m.Key(), Objects: []model.Object{&model.AttachedRoute{
		Meta: m, Accepted: model.Condition{Status: true}, ResolvedRefs: model.Condition{Status: true},
		Parents: []model.ParentRef{{Group: kinds.GatewayAPIGroup, Kind: "Gateway", Name: "x"}},
		Foreign: []model.ForeignHost{{Host: host}},
		HTTP: []*model.HTTPRoute{{
			Matches: []*model.HTTPMatch{{}}, Destinations: []model.Destination{to},
			Mirrors: []model.Mirror{{Destination: to, Percent: 1}},
		}},
	}}}
	leads := func(updates ...Update) (to model.Host, reason string) {
		s, _ := w.Apply(updates)
		for v := range s.VirtualServices() {
			require.Empty(t, to)
			to = v.HTTP[0].Destinations[0].Host
			require.Equal(t, to != "", len(v.HTTP[0].Mirrors) == 1, "mirrors go where requests go")
		}
		return to, s.GatewayAPIStatus(kinds.HTTPRoute, "a", "r").Parents[0].ResolvedRefs.Reason
	}
	to1, reason := leads(append(attachedMesh(0), route)...)
	require.Empty(t, to1, "nobody has the host")
	require.Equal(t, backendNotFound, reason)

	to1, reason = leads(claim(kinds.ServiceEntry, "a"))
	require.Equal(t, host, to1, "a ServiceEntry of the route's namespace has it")
	require.Empty(t, reason)

	to1, reason = leads(claim(kinds.Service, "b"))
	require.Empty(t, to1, "a Service of another namespace comes before it")
	require.Equal(t, backendNotFound, reason)

	to1, _ = leads(Update{Key: claim(kinds.Service, "b").Key})
	require.Equal(t, host, to1)

	alias := claim(kinds.Service, "a") // of type ExternalName
	named := alias.Objects[0].(*model.Service)
	named.External, named.Resolution, named.AliasOf = true, model.StrictDNS, "secret.b.svc.cluster.local"
	to1, reason = leads(alias)
	require.Empty(t, to1, "another name would lead past the grants of the namespace that it leads to")
	require.Equal(t, refNotPermitted, reason)

	to1, reason = leads(claim(kinds.Service, "a"))
	require.Equal(t, host, to1, "it has become a Service with endpoints")
	require.Empty(t, reason)
}
