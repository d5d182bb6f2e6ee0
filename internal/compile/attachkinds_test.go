package compile

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

func updateOf(o model.Object, m *model.Meta) state.Update {
	return state.Update{Key: m.Key(), Objects: []model.Object{o}}
}

// callsOf is a GRPCRoute for the calls of one method.
func callsOf(variant int) state.Update {
	u := attachTo(0, toGateway, fmt.Sprint("/calls/", variant))
	r := u.Objects[0].(*model.AttachedRoute)
	r.Kind, r.Hosts = kinds.GRPCRoute, []model.Host{"calls.test"}
	return updateOf(r, &r.Meta)
}

// connectionsOf is a route of connections to two services.
func connectionsOf(kind kinds.Kind) func(variant int) state.Update {
	return func(variant int) state.Update {
		u := attachTo(0, toGateway, "")
		r := u.Objects[0].(*model.AttachedRoute)
		r.Kind, r.HTTP, r.Hosts = kind, nil, nil
		if kind == kinds.TLSRoute {
			r.Hosts = []model.Host{"secure.test"}
		}
		r.TCP = []*model.TCPRoute{{Destinations: []model.Destination{
			{Host: "svc0.ns0.svc.cluster.local", Port: 80, Weight: uint32(variant)},
			{Host: "svc1.ns1.svc.cluster.local", Port: 80, Weight: 1},
		}}}
		return updateOf(r, &r.Meta)
	}
}

// grantOf lets a route lead to ns1, or does not.
func grantOf(variant int) state.Update {
	m := model.Meta{Kind: kinds.ReferenceGrant, Namespace: "ns1", Name: "routes"}
	return updateOf(&model.ReferenceGrant{
		Meta: m, To: []model.GrantTo{{Kind: "Service", Name: fmt.Sprint("svc", variant)}},
		From: []model.GrantFrom{{Group: kinds.GatewayAPIGroup, Kind: "HTTPRoute", Namespace: "ns0"}},
	}, &m)
}

// intoOtherNamespace is the route that needs the grant.
func intoOtherNamespace() state.Update {
	u := attachTo(3, toGateway, "/a")
	r := u.Objects[0].(*model.AttachedRoute)
	r.HTTP[0].Destinations[0].Host = "svc1.ns1.svc.cluster.local"
	r.Foreign = []model.ForeignHost{{
		Service: model.ObjectName{Namespace: "ns1", Name: "svc1"}, Host: "svc1.ns1.svc.cluster.local",
	}}
	return u
}

func backendTLSOf(variant int) state.Update {
	m := model.Meta{Kind: kinds.BackendTLSPolicy, Namespace: "ns0", Name: "svc0"}
	ok := model.Condition{Status: true}
	return updateOf(&model.BackendTLSPolicy{
		Meta: m, Accepted: ok, ResolvedRefs: ok,
		TLS:     model.ClientTLS{Mode: model.Simple, SNI: fmt.Sprintf("backend%d.test", variant)},
		Targets: []model.BackendTarget{{Service: "svc0", Host: "svc0.ns0.svc.cluster.local"}},
	}, &m)
}

// spareListenerOf is the Gateway with another host at its spare listener.
func spareListenerOf(variant int) state.Update {
	m := model.Meta{Kind: kinds.KubernetesGateway, Namespace: "ns0", Name: "public"}
	return updateOf(&model.KubernetesGateway{
		Meta: m, Class: "istio", Accepted: model.Condition{Status: true}, Sets: model.NamespaceSelector{All: true},
		Listeners: openListeners(model.Host(fmt.Sprintf("spare%d.test", variant))),
	}, &m)
}

// A change of each kind costs the same among 10 routes and among 2,000, and goes to those alone
// whom it concerns: most is how many resources it may make at all proxies.
func TestEachKindOfTheGatewayAPICostsWhatItChanges(t *testing.T) {
	if raced {
		t.Skip("one goroutine does it all")
	}
	edits := []struct {
		name string
		edit func(variant int) state.Update
		most int
	}{
		{"GRPCRoute", callsOf, 1},
		{"TLSRoute", connectionsOf(kinds.TLSRoute), 1},
		{"TCPRoute", connectionsOf(kinds.TCPRoute), 1},
		{"ReferenceGrant", grantOf, 1},
		{"listener", spareListenerOf, 2},
		{"BackendTLSPolicy", backendTLSOf, namespaces + 1},
	}
	costs := map[int]map[string]cost{}
	for _, routes := range []int{10, 2000} {
		m := meshWithRoutes(t, routes)
		m.apply(intoOtherNamespace())
		costs[routes] = map[string]cost{}
		for _, e := range edits {
			m.apply(e.edit(1))
			c := m.costOf(e.edit(2))
			require.NotZero(t, c.upserts, e.name)
			require.LessOrEqual(t, c.upserts, e.most, e.name)
			c.hits = 0 // a Gateway's listeners are looked at again
			costs[routes][e.name] = c
		}
	}
	require.Equal(t, costs[10], costs[2000])
}
