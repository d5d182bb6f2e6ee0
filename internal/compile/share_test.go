package compile

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// workOf is what a change makes the compiler do.
func (m *meshOf) workOf(do func()) Work {
	before := m.compiler.Stats().Work
	do()
	after := m.compiler.Stats().Work
	return Work{
		StoreWork: resource.StoreWork{Edits: after.Edits - before.Edits, Nodes: after.Nodes - before.Nodes},
		Units:     after.Units - before.Units, Evaluations: after.Evaluations - before.Evaluations,
	}
}

// A change is compiled once for the classes of 50 namespaces, and once more for a namespace that
// has a short name for the host.
func TestClassesThatSeeAlikeShareTheWork(t *testing.T) {
	for _, services := range []int{200, 1000} {
		m := newMeshOf(t, services)
		m.apply(routesOfService(7, 1))
		routes := m.workOf(func() { m.apply(routesOfService(7, 2)) })
		require.EqualValues(t, 2, routes.Units, "%d services", services)
		require.LessOrEqual(t, routes.Edits, uint64(2*namespaces))
		require.Len(t, m.last.Changed, namespaces)
		endpoint := m.workOf(func() { m.apply(endpointOf(7, 2)) })
		require.Zero(t, endpoint.Units, "no class is asked")
		require.LessOrEqual(
			t, endpoint.Edits, uint64(4), "of the group of endpoints, and of the one set of assignments",
		)
		require.Zero(t, endpoint.Evaluations)
		require.Len(t, m.last.Changed, namespaces)
	}
}

// What a new class sees differently is found without a look at what both see.
func TestTheSearchForADifferenceDoesNotGrowWithTheMesh(t *testing.T) {
	lookups := func(far int) uint64 {
		m := newMeshOf(t, 200)
		var updates []state.Update
		for i := range far {
			s := serviceNumber(i, 0)
			o := s.Objects[0].(*model.Service)
			o.Namespace = fmt.Sprint("far", i%10)
			o.Host = model.Resolve(o.Name, o.Namespace, "cluster.local")
			rule := &model.DestinationRule{Meta: o.Meta, Host: o.Host, ExportTo: o.ExportTo}
			rule.Kind = kinds.DestinationRule
			updates = append(updates, state.Update{Key: o.Key(), Objects: []model.Object{o, rule}})
		}
		m.apply(updates...)
		snap, from := m.compiler.snapshot, &m.compiler.list[0].key
		before := snap.Lookups()
		require.Len(t, m.compiler.builder.difference(snap, from, &scope.Class{
			Namespace: "ns7",
			Settings:  from.Settings,
		}).hosts, 2*200/namespaces)
		return snap.Lookups() - before
	}
	require.Equal(t, lookups(10), lookups(1000))
}

// A change that touches everything is compiled for one class, and for the others only where they
// see something else.
func TestMeshChangeIsCompiledOnce(t *testing.T) {
	const services, each = 1000, 1000 / namespaces
	m := newMeshOf(t, services)
	mesh := model.DefaultMesh()
	mesh.AccessLogs = []*model.AccessLog{{Path: "/dev/stdout"}}
	key := source.Key{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"}
	work := m.workOf(func() { m.apply(state.Update{Key: key, Objects: []model.Object{&mesh}}) })
	require.Len(t, m.last.Changed, namespaces)
	require.EqualValues(t, services+1+(namespaces-1)*(2*each+1), work.Units)
}

// Classes that saw the same and no longer do have different configuration.
func TestRoutesOfOneNamespaceAreItsOwn(t *testing.T) {
	m := newMeshOf(t, 200)
	routes := routesOfService(7, 1)
	routes.Objects[0].(*model.VirtualService).ExportTo = model.Exports{Namespaces: []string{"ns3"}}
	m.apply(routes)
	require.Len(t, m.last.Changed, 1)
}

// A new class costs what it sees differently from a compiled one: here the services of two
// namespaces, which have short names.
func TestANewClassCostsItsDifference(t *testing.T) {
	const services, each = 1000, 1000 / namespaces
	m := &meshOf{writer: state.NewCountingWriter(), compiler: NewCompiler(Refusals{})}
	m.compiler.CountWork()
	var updates []state.Update
	for i := range services {
		updates = append(updates, serviceNumber(i, 0), endpointOf(i, 1))
	}
	m.apply(updates...)
	join := func(namespace int, labels map[string]string) Work {
		return m.workOf(func() {
			m.compiler.Join(Facts{Proxy: scope.Proxy{
				Address:   "127.0.0.2",
				Namespace: fmt.Sprint("ns", namespace),
				Name:      "p",
				Labels:    model.LabelsOf(labels),
				Settings:  scope.Settings{HTTPProxyPort: 15080},
			}}, func(*Member, Placement) {})
		})
	}
	require.EqualValues(t, services+1, join(1, nil).Units)
	require.EqualValues(t, 2*each+1, join(2, nil).Units)
	selecting := serviceNumber(3, 0)
	changed := selecting.Objects[0].(*model.Service)
	changed.Selector, changed.Ports[0].Target = model.LabelsOf(map[string]string{"app": "a"}), 8080
	m.apply(selecting)
	require.EqualValues(t, 2*each+1, join(3, nil).Units)
	require.EqualValues(t, 1, join(3, map[string]string{"app": "a"}).Units, "only what it serves is its own")
	require.Equal(t, 4, m.compiler.Stats().Classes)
}
