package compile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// meshOf is a mesh of n services in 50 namespaces with an endpoint each, and a proxy in each
// namespace.
type meshOf struct {
	writer   *state.Writer
	compiler *Compiler
	last     Step
}

const namespaces = 50

func newMeshOf(tb testing.TB, services int) *meshOf {
	m := &meshOf{writer: state.NewWriter(), compiler: NewCompiler(Refusals{
		Endpoint: func(e model.Endpoint, err error) { tb.Errorf("%v: %v", e, err) },
		Resource: func(name string, err error) { tb.Errorf("%s: %v", name, err) },
	})}
	m.compiler.CountWork()
	var updates []state.Update
	for i := range services {
		updates = append(updates, serviceNumber(i, 0), endpointOf(i, 1))
	}
	m.apply(updates...)
	for n := range namespaces {
		m.compiler.Join(Facts{Proxy: scope.Proxy{
			Address:   "127.0.0.2",
			Namespace: fmt.Sprint("ns", n), Name: "p", Settings: scope.Settings{HTTPProxyPort: 15080},
		}}, func(*Member, Placement) {})
	}
	return m
}

func serviceNumber(i int, timeoutSeed uint16) state.Update {
	s := &model.Service{Meta: model.Meta{
		Kind:      kinds.Service,
		Namespace: fmt.Sprint("ns", i%namespaces),
		Name:      fmt.Sprint("svc", i),
	}, ExportTo: model.Exports{All: true}}
	s.Host = model.Resolve(s.Name, s.Namespace, "cluster.local")
	s.Ports = []model.ServicePort{{Name: "http", Port: 80 + timeoutSeed, Protocol: model.HTTP}}
	return state.Update{Key: s.Key(), Objects: []model.Object{s}}
}

func endpointOf(i, host int) state.Update {
	e := &model.EndpointSlice{
		Meta: model.Meta{
			Kind:      kinds.EndpointSlice,
			Namespace: fmt.Sprint("ns", i%namespaces),
			Name:      fmt.Sprint("svc", i),
		},
		Service: fmt.Sprint("svc", i), Ports: []model.SlicePort{{Name: "http", Port: 8080}},
		Hosts: []model.SliceHost{{Address: fmt.Sprintf("127.1.%d.%d", host/250, 1+host%250)}},
	}
	return state.Update{Key: e.Key(), Objects: []model.Object{e}}
}

func routesOfService(i, weight int) state.Update {
	v := &model.VirtualService{
		Meta: model.Meta{
			Kind:      kinds.VirtualService,
			Namespace: fmt.Sprint("ns", i%namespaces),
			Name:      fmt.Sprint("svc", i),
		},
		Hosts:    []model.Host{model.Resolve(fmt.Sprint("svc", i), fmt.Sprint("ns", i%namespaces), "cluster.local")},
		Gateways: []string{model.Mesh},
		ExportTo: model.Exports{All: true},
	}
	v.HTTP = []*model.HTTPRoute{{Destinations: []model.Destination{{
		Host:   v.Hosts[0],
		Weight: uint32(weight),
	}}, Name: fmt.Sprint("w", weight)}}
	return state.Update{Key: v.Key(), Objects: []model.Object{v}}
}

func (m *meshOf) apply(updates ...state.Update) {
	_, d := m.writer.Apply(updates)
	m.compiler.Advance(d, func(s Step) {
		m.last = s
		m.last.Changed = slices.Clone(s.Changed)
	})
}

// cost is what a step took, in counts that are exact.
type cost struct {
	misses, hits uint64
	changed      int
	upserts      int
	bytes        int // of the bodies of the upserts
}

func (m *meshOf) costOf(u state.Update) cost {
	before := m.compiler.Stats().Total()
	states := map[resource.ClassID]resource.State{}
	for _, c := range m.compiler.classes {
		for _, v := range c.variants.list {
			states[v.id] = v.state
		}
	}
	m.apply(u)
	after := m.compiler.Stats().Total()
	c := cost{misses: after.Misses - before.Misses, hits: after.Hits - before.Hits, changed: len(m.last.Changed)}
	for _, changed := range m.last.Changed {
		for t := range changed.State.Sets() {
			resource.Diff(
				states[changed.Class].Set(resource.Type(t)), changed.State.Set(resource.Type(t)),
				func(_, to *resource.Resource) {
					c.upserts++
					if to != nil { // else it is removed
						c.bytes += len(to.Body())
					}
				},
			)
		}
	}
	return c
}

// changesOfOneObject are changes of a meshOf that touch all classes.
func changesOfOneObject() map[string]state.Update {
	return map[string]state.Update{
		"a service's port": serviceNumber(7, 1), "an endpoint": endpointOf(7, 2),
		"a new VirtualService": routesOfService(7, 1),
	}
}

// The cost of a change follows the size of the change, not that of the mesh.
func TestTheCostOfAChangeDoesNotGrowWithTheMesh(t *testing.T) {
	for name, change := range changesOfOneObject() {
		t.Run(name, func(t *testing.T) {
			small, large := newMeshOf(t, 200).costOf(change), newMeshOf(t, 1000).costOf(change)
			require.Equal(t, small, large)
			require.Equal(t, namespaces, small.changed)
			require.NotZero(t, small.misses)
		})
	}
}

// Routes that a gateway has for all hosts are no service's: an edit compiles as little among a
// thousand services as among a hundred.
func TestRoutesOfAGatewayForAllHostsLeaveTheServices(t *testing.T) {
	routes := func(name string) state.Update {
		u := routesOfService(7, 1)
		v := u.Objects[0].(*model.VirtualService)
		v.Hosts, v.Gateways, v.HTTP[0].Name = []model.Host{"*"}, []string{"ns0/public"}, name
		return u
	}
	units := map[int]uint64{}
	for _, services := range []int{100, 1000} {
		m := newMeshOf(t, services)
		m.apply(routes("a"))
		units[services] = m.workOf(func() { m.apply(routes("b")) }).Units
	}
	require.Equal(t, units[100], units[1000])
}

// What changes no output reaches no proxy.
func TestAChangeWithoutEffectChangesNoState(t *testing.T) {
	m := newMeshOf(t, 100)
	u := serviceNumber(7, 0)
	u.Objects[0].(*model.Service).Headless = true
	require.Zero(t, m.costOf(u).changed)
}

// Proxies that differ only in what no resource reads share one class, and each resource is encoded
// once.
func TestAThousandProxiesOfAClassCostOne(t *testing.T) {
	m := newMeshOf(t, 100)
	before := m.compiler.Stats()
	for i := range 1000 {
		m.compiler.Join(Facts{Proxy: scope.Proxy{
			Address:   fmt.Sprintf("127.9.%d.%d", i/250, i%250),
			Namespace: "ns1",
			Name:      fmt.Sprint("pod-", i),
			Labels:    model.LabelsOf(map[string]string{"pod-template-hash": fmt.Sprint(i)}),
			Settings:  scope.Settings{HTTPProxyPort: 15080},
		}}, func(*Member, Placement) {})
	}
	after := m.compiler.Stats()
	require.Equal(t, before.Classes, after.Classes)
	require.Equal(t, before.Translate, after.Translate)
}

// Of a thousand policies an edit of one changes the listeners of the proxies that it selects, and
// translates that policy's filters once.
func TestAnEditOfAPolicyChangesTheClassesThatItSelects(t *testing.T) {
	m := newMeshOf(t, 100)
	gateway := model.LabelsOf(map[string]string{"app": "gateway"})
	m.compiler.Join(Facts{Proxy: scope.Proxy{
		Address:   "127.0.0.3",
		Namespace: "ns7", Name: "gateway", Labels: gateway, Settings: scope.Settings{Intercepted: true},
	}}, func(*Member, Placement) {})
	policy := func(i int, selector model.Labels, caller string) state.Update {
		p := &model.AuthorizationPolicy{
			Meta: model.Meta{
				Kind:      kinds.AuthorizationPolicy,
				Namespace: fmt.Sprint("ns", i%namespaces),
				Name:      fmt.Sprint("policy", i),
			},
			Selection: model.Selection{Selector: selector},
			Action:    model.AuthorizationDeny,
			Rules: &model.AuthorizationRules{List: []model.AuthorizationRule{{When: model.AuthorizationConditions{
				{Attribute: model.SourcePrincipal, Values: []string{caller}},
			}}}},
		}
		return state.Update{Key: p.Key(), Objects: []model.Object{p}}
	}
	for i := range 1000 {
		m.apply(policy(i, model.Labels{}, "a"))
	}
	m.apply(policy(7, gateway, "a"))
	got := m.costOf(policy(7, gateway, "b"))
	got.bytes = 0 // of the whole listener, which the number of policies for others does not change
	require.Equal(t, cost{misses: 1, hits: 3, changed: 1, upserts: 1}, got)
	require.Zero(t, m.costOf(policy(7, gateway, "b")).changed)
}
