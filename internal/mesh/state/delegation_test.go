package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

func routesMeta(namespace, name string) model.Meta {
	return model.Meta{Kind: kinds.VirtualService, Namespace: namespace, Name: name}
}

func routesUpdate(o model.Object) Update {
	type named interface{ Key() source.Key }
	return Update{Key: o.(named).Key(), Objects: []model.Object{o}}
}

func forwarding(to model.Host, prefixes ...string) *model.HTTPRoute {
	return &model.HTTPRoute{Matches: prefixed(prefixes...), Destinations: []model.Destination{{Host: to}}}
}

func prefixed(prefixes ...string) []*model.HTTPMatch {
	var out []*model.HTTPMatch
	for _, p := range prefixes {
		out = append(out, &model.HTTPMatch{URI: &model.StringMatch{Kind: model.Prefix, Value: p}})
	}
	return out
}

// rootOf delegates its first routes, and forwards by the last one.
func rootOf(namespace, name string, to ...model.ObjectName) *model.RootRoutes {
	r := &model.RootRoutes{VirtualService: model.VirtualService{
		Meta: routesMeta(namespace, name), Hosts: []model.Host{model.Host(name + ".test")},
		Gateways: []string{model.Mesh}, ExportTo: model.Exports{All: true},
	}}
	for i, d := range to {
		r.HTTP = append(r.HTTP, &model.HTTPRoute{Matches: prefixed(fmt.Sprint("/", i))})
		r.Delegations = append(r.Delegations, model.Delegation{Route: i, To: d})
	}
	r.HTTP = append(r.HTTP, forwarding("last.test"))
	return r
}

func delegateOf(namespace, name string, routes ...*model.HTTPRoute) *model.DelegateRoutes {
	return &model.DelegateRoutes{
		Meta: routesMeta(namespace, name), HTTP: routes, Given: make([]model.Given, len(routes)),
		ExportTo: model.Exports{All: true},
	}
}

func plainRoutes(namespace, name string) *model.VirtualService {
	return &model.VirtualService{
		Meta: routesMeta(namespace, name), Hosts: []model.Host{"plain.test"}, Gateways: []string{model.Mesh},
		ExportTo: model.Exports{All: true}, HTTP: []*model.HTTPRoute{forwarding("plain.test")},
	}
}

// Each change of a root, of its delegate and of what has the delegate's name changes what the root
// comes to, as if all objects were there at once, and what the delta says.
func TestDelegationsFollowTheirObjects(t *testing.T) {
	x, y := model.ObjectName{Namespace: "b", Name: "x"}, model.ObjectName{Namespace: "b", Name: "y"}
	hidden := delegateOf("b", "x", forwarding("x.test", "/0/x"))
	hidden.ExportTo = model.Exports{Own: true}
	gone := func(name model.ObjectName) Update {
		return Update{Key: source.Key{Kind: kinds.VirtualService, Namespace: name.Namespace, Name: name.Name}}
	}
	root := model.ObjectName{Namespace: "a", Name: "r"}
	steps := []struct {
		updates []Update
		leads   string // by the routes of a/r; "503" for a closed one
		unused  string
	}{
		{[]Update{routesUpdate(rootOf("a", "r", x))}, "503 last.test", ""},
		{[]Update{routesUpdate(delegateOf("b", "x", forwarding("x.test")))}, "x.test last.test", ""},
		{[]Update{routesUpdate(delegateOf("b", "x", forwarding("x.test", "/0/a"), forwarding("z.test")))},
			"x.test z.test last.test", ""},
		{[]Update{routesUpdate(delegateOf("b", "x", forwarding("x.test", "/elsewhere"), forwarding("z.test")))},
			"z.test last.test", ""},
		{[]Update{routesUpdate(hidden)}, "503 last.test", ""},
		{[]Update{routesUpdate(plainRoutes("b", "x"))}, "503 last.test", ""},
		{[]Update{gone(x)}, "503 last.test", ""},
		{[]Update{routesUpdate(plainRoutes("b", "x"))}, "503 last.test", ""},
		{[]Update{routesUpdate(delegateOf("b", "x", forwarding("x.test")))}, "x.test last.test", ""},
		{[]Update{routesUpdate(rootOf("b", "x", y))}, "503 last.test", ""},
		{[]Update{gone(x)}, "503 last.test", ""},
		{[]Update{routesUpdate(delegateOf("b", "x"))}, "503 last.test", ""},
		{[]Update{routesUpdate(delegateOf("b", "y", forwarding("y.test")))}, "503 last.test", "b/y"},
		{[]Update{routesUpdate(rootOf("a", "r", y, x))}, "y.test 503 last.test", ""},
		{[]Update{routesUpdate(rootOf("a", "r", root))}, "503 last.test", "b/x b/y"},
		{[]Update{routesUpdate(rootOf("c", "s", y)), routesUpdate(rootOf("a", "r", y))}, "y.test last.test", "b/x"},
		{[]Update{gone(model.ObjectName{Namespace: "c", Name: "s"})}, "y.test last.test", "b/x"},
		{[]Update{routesUpdate(plainRoutes("a", "r"))}, "plain.test", "b/x b/y"},
		{[]Update{gone(x)}, "plain.test", "b/y"},
		{[]Update{routesUpdate(rootOf("a", "r", y))}, "y.test last.test", ""},
		{[]Update{routesUpdate(delegateOf("a", "r", forwarding("r.test")))}, "", "a/r b/y"},
		{[]Update{routesUpdate(rootOf("a", "r", y))}, "y.test last.test", ""},
		{[]Update{gone(root)}, "", "b/y"},
	}
	writer, present := NewWriter(), map[source.Key]Update{}
	var held *Delta
	for i, step := range steps {
		for _, u := range step.updates {
			present[u.Key] = u
		}
		before := writer.Snapshot()
		next, d := writer.Apply(step.updates)
		require.Equal(t, before.Generation+1, next.Generation, "step %d changes something", i)
		held = held.Compose(d)
		var all []Update
		for _, u := range present {
			all = append(all, u)
		}
		fresh, _ := NewWriter().Apply(all)
		require.Equal(t, joinedObjects(fresh), joinedObjects(next), "step %d", i)
		requireJoinedDelta(t, before, next, d)
		requireJoinedDelta(t, held.From, next, held)
		require.Equal(t, step.leads, destinationsInOrder(next.VirtualService("a", "r")), "step %d", i)
		require.Equal(t, step.unused, unusedIn(next), "step %d", i)
	}
}

func destinationsInOrder(v *model.VirtualService) string {
	var out string
	if v == nil {
		return out
	}
	for i, r := range v.HTTP {
		if i > 0 {
			out += " "
		}
		if r.Broken != "" {
			out += "503"
			continue
		}
		out += string(r.Destinations[0].Host)
	}
	return out
}

func unusedIn(s *Snapshot) string {
	var out string
	for d := range s.Delegations() {
		if d.Unused && out != "" {
			out += " "
		}
		if d.Unused {
			out += d.Namespace + "/" + d.Name
		}
	}
	return out
}

// joinedObjects are what delegation comes to.
func joinedObjects(s *Snapshot) []string {
	var all []string
	for v := range s.VirtualServices() {
		all = append(all, names([]*model.VirtualService{v})...)
	}
	for o := range s.Delegations() {
		all = append(all, names([]*model.DelegationStatus{o})...)
	}
	slices.Sort(all)
	return all
}

// requireJoinedDelta checks that a delta leads from what delegation came to before to what it comes
// to now.
func requireJoinedDelta(t *testing.T, before, now *Snapshot, d *Delta) {
	t.Helper()
	all := joinedObjects(before)
	for _, p := range d.VirtualServices {
		all = exchanged(t, all, names(present(p.Old)), names(present(p.New)))
	}
	for _, p := range d.Delegations {
		all = exchanged(t, all, names(present(p.Old)), names(present(p.New)))
	}
	require.ElementsMatch(t, joinedObjects(now), all)
}

func exchanged(t *testing.T, all, old, now []string) []string {
	t.Helper()
	for _, name := range old {
		at := slices.Index(all, name)
		require.GreaterOrEqual(t, at, 0, "%s was not there", name)
		all = slices.Delete(all, at, at+1)
	}
	return append(all, now...)
}

// A changed delegate costs its roots, however many others there are.
func TestADelegateCostsItsRoots(t *testing.T) {
	cost := func(others int) uint64 {
		writer := NewCountingWriter()
		var all []Update
		for i := range others {
			name := fmt.Sprint("other", i)
			all = append(all, routesUpdate(rootOf("a", name, model.ObjectName{Namespace: "b", Name: name})),
				routesUpdate(delegateOf("b", name, forwarding("x.test"))))
		}
		to := model.ObjectName{Namespace: "b", Name: "x"}
		all = append(all, routesUpdate(rootOf("a", "r", to)), routesUpdate(delegateOf("b", "x", forwarding("x.test"))))
		writer.Apply(all)
		before := writer.Snapshot().Lookups()
		_, d := writer.Apply([]Update{routesUpdate(delegateOf("b", "x", forwarding("y.test")))})
		require.Len(t, d.VirtualServices, 1)
		return writer.Snapshot().Lookups() - before
	}
	require.InDelta(t, cost(10), cost(2000), 10)
}
