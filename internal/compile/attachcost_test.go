package compile

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// attachTo is an HTTPRoute number i of ns0 for a host of its own, or for the calls of a Service.
func attachTo(i int, parent model.ParentRef, path string) state.Update {
	m := model.Meta{Kind: kinds.HTTPRoute, Namespace: "ns0", Name: fmt.Sprint("route", i)}
	r := &model.AttachedRoute{
		Meta: m, Parents: []model.ParentRef{parent}, Hosts: []model.Host{model.Host(fmt.Sprint("host", i, ".test"))},
		Accepted: model.Condition{Status: true}, ResolvedRefs: model.Condition{Status: true},
		HTTP: []*model.HTTPRoute{{
			Matches:      []*model.HTTPMatch{{URI: &model.StringMatch{Kind: model.PathPrefix, Value: path}}},
			Destinations: []model.Destination{{Host: "svc0.ns0.svc.cluster.local", Port: 80, Weight: 1}},
		}},
	}
	return state.Update{Key: m.Key(), Objects: []model.Object{r}}
}

// openListeners are a listener for each protocol, and one for a host.
func openListeners(host model.Host) []model.Listener {
	of := func(name string, port uint16, protocol model.Protocol, takes ...kinds.Kind) model.Listener {
		return model.Listener{
			Name: name, Port: port, Protocol: protocol, Host: "*", Kinds: takes,
			From: model.NamespaceSelector{All: true}, Accepted: model.Condition{Status: true},
			ResolvedRefs: model.Condition{Status: true},
		}
	}
	list := []model.Listener{
		of("http", 80, model.HTTP, kinds.GRPCRoute, kinds.HTTPRoute), of("spare", 81, model.HTTP),
		of("tls", 8443, model.TLS, kinds.TLSRoute), of("tcp", 9000, model.TCP, kinds.TCPRoute),
	}
	list[1].Host, list[2].TLS = host, &model.ServerTLS{Mode: model.ServerPassthrough}
	return list
}

// meshWithRoutes has a gateway in ns0 for a Gateway of the Gateway API with that many routes.
func meshWithRoutes(t *testing.T, routes int) *meshOf {
	m := newMeshOf(t, 100)
	g := &model.KubernetesGateway{
		Meta:  model.Meta{Kind: kinds.KubernetesGateway, Namespace: "ns0", Name: "public"},
		Class: "istio", Accepted: model.Condition{Status: true}, Sets: model.NamespaceSelector{All: true},
		Listeners: openListeners("spare.test"),
	}
	updates := []state.Update{{Key: g.Key(), Objects: []model.Object{g}}}
	for i := range routes {
		updates = append(updates, attachTo(i, toGateway, "/a"))
	}
	m.apply(updates...)
	m.compiler.Join(Facts{Proxy: scope.Proxy{
		Type: scope.Router, Address: "127.0.0.3", Namespace: "ns0", Name: "gateway",
		Labels: model.LabelsOf(map[string]string{model.GatewayNameLabel: "public"}),
	}}, func(*Member, Placement) {})
	return m
}

var toGateway = model.ParentRef{Group: kinds.GatewayAPIGroup, Kind: "Gateway", Name: "public"}

// One route among 5,000 changes: one virtual host is translated, and goes to the gateway alone. Its
// bytes are those of the same route among 10.
func TestOneAttachedRouteAmongThousandsIsOneVirtualHost(t *testing.T) {
	if raced {
		t.Skip("one goroutine does it all")
	}
	few := meshWithRoutes(t, 10).costOf(attachTo(7, toGateway, "/b"))
	many := meshWithRoutes(t, 5000).costOf(attachTo(7, toGateway, "/b"))
	require.Equal(t, few, many)
	require.NotZero(t, many.bytes)
	require.Equal(t, cost{misses: 1, hits: many.hits, changed: 1, upserts: 1, bytes: many.bytes}, many)
}

// Ten thousand routes on one host are one virtual host. An edit of a route on another host neither
// translates that again nor sends it.
func TestManyRoutesOnOneHostLeaveTheHostsOfOthers(t *testing.T) {
	if raced {
		t.Skip("one goroutine does it all")
	}
	const other = 10_000
	costs := map[int]cost{}
	for _, routes := range []int{10, other} {
		m := meshWithRoutes(t, 1)
		updates := []state.Update{attachTo(other, toGateway, "/a")}
		for i := range routes {
			u := attachTo(i, toGateway, fmt.Sprint("/", i))
			u.Objects[0].(*model.AttachedRoute).Hosts = []model.Host{"one.test"}
			updates = append(updates, u)
		}
		m.apply(updates...)
		costs[routes] = m.costOf(attachTo(other, toGateway, "/b"))
	}
	require.Equal(t, costs[10], costs[other])
	require.Equal(t, 1, costs[10].upserts)
}

// A route of a Service changes the calls of this Service, for all callers.
func TestOneRouteOfAServiceIsOneVirtualHostOfItsCallers(t *testing.T) {
	const host = model.Host("svc0.ns0.svc.cluster.local")
	toService := model.ParentRef{Kind: "Service", Name: "svc0", Host: host}
	costs := map[int]cost{}
	for _, routes := range []int{10, 1000} {
		m := meshWithRoutes(t, routes)
		m.apply(attachTo(5000, toService, "/a"))
		costs[routes] = m.costOf(attachTo(5000, toService, "/b"))
	}
	require.Equal(t, costs[10], costs[1000])
	require.Equal(t, namespaces, costs[10].changed)
	require.Equal(t, namespaces, costs[10].upserts)
}

// setWithListener is ListenerSet number i of the Gateway, with a listener of HTTPS for a host.
func setWithListener(i int) state.Update {
	m := model.Meta{Kind: kinds.ListenerSet, Namespace: "ns0", Name: fmt.Sprint("set", i)}
	ok := model.Condition{Status: true}
	return state.Update{Key: m.Key(), Objects: []model.Object{&model.ListenerSet{
		Meta: m, Parent: model.ObjectName{Namespace: "ns0", Name: "public"},
		Listeners: []model.Listener{{
			Name: "https", Port: 443, Protocol: model.HTTP, Host: model.Host(fmt.Sprintf("host%d.test", i)),
			Kinds: []kinds.Kind{kinds.HTTPRoute}, From: model.NamespaceSelector{All: true}, Accepted: ok,
			ResolvedRefs: ok, TLS: &model.ServerTLS{Mode: model.ServerSimple},
		}},
	}}}
}

// One more ListenerSet among thousands adds its own virtual hosts and changes the listener of the
// port. The tables of other hosts stay: they do not list it.
func TestOneMoreListenerSetLeavesTheTablesOfOthers(t *testing.T) {
	if raced {
		t.Skip("one goroutine does it all")
	}
	costs := map[int]cost{}
	for _, sets := range []int{100, 1000} {
		m := meshWithRoutes(t, 1)
		var updates []state.Update
		for i := range sets {
			updates = append(updates, setWithListener(i))
		}
		m.apply(updates...)
		c := m.costOf(setWithListener(sets))
		c.hits, c.bytes = 0, 0 // the listener of the port holds a chain for each of the sets
		costs[sets] = c
	}
	require.Equal(t, costs[100], costs[1000])
	require.Equal(t, cost{misses: 4, changed: 1, upserts: 4}, costs[100])
}

// gatewayWithSets is a gateway with that many ListenerSets of HTTPS, and a route for each.
func gatewayWithSets(t *testing.T, sets int) *meshOf {
	m := meshWithRoutes(t, 1)
	var updates []state.Update
	for i := range sets {
		updates = append(updates, setWithListener(i), routeOfSet(i, "/a"))
	}
	m.apply(updates...)
	return m
}

// routeOfSet is an HTTPRoute of ListenerSet number i.
func routeOfSet(i int, path string) state.Update {
	return attachTo(i, model.ParentRef{
		Group: kinds.GatewayAPIGroup, Kind: string(kinds.ListenerSet), Name: fmt.Sprint("set", i),
	}, path)
}

// A virtual host of a listener with TLS asks for the Gateway of its table alone, however many
// listeners the port has.
func TestAVirtualHostOfATLSListenerAsksForItsOwnGateway(t *testing.T) {
	if raced {
		t.Skip("one goroutine does it all")
	}
	asked := map[int]uint64{}
	for _, sets := range []int{100, 1000} {
		m := gatewayWithSets(t, sets)
		work := m.workOf(func() { m.apply(routeOfSet(7, "/b")) })
		require.Equal(t, 1, len(m.last.Changed))
		asked[sets] = work.Evaluations
	}
	require.Equal(t, asked[100], asked[1000])
}

// All listeners of a gateway are compiled from nothing at a cost that grows as they do.
func TestTLSListenersOfAGatewayCostWhatTheirNumberIs(t *testing.T) {
	if raced {
		t.Skip("one goroutine does it all")
	}
	asked := map[int]uint64{}
	for _, sets := range []int{100, 200, 300} {
		m := gatewayWithSets(t, sets)
		asked[sets] = m.workOf(func() {
			m.compiler.Join(Facts{Proxy: scope.Proxy{
				Type: scope.Router, Address: "127.0.0.4", Namespace: "ns0", Name: "gateway2",
				Labels:   model.LabelsOf(map[string]string{model.GatewayNameLabel: "public"}),
				Settings: scope.Settings{AllClusters: true},
			}}, func(*Member, Placement) {})
		}).Evaluations
	}
	require.Equal(t, asked[200]-asked[100], asked[300]-asked[200])
}
