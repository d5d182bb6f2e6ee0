package compile

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// podsOf is a headless service's slice with so many pods, of which one has another address.
func podsOf(count, moved int) state.Update {
	s := &model.EndpointSlice{
		Meta:    model.Meta{Kind: kinds.EndpointSlice, Namespace: "ns0", Name: "db"},
		Service: "db", Ports: []model.SlicePort{{Name: "tcp", Port: 3306}},
	}
	for i := range count {
		address := fmt.Sprintf("127.2.%d.%d", i/250, 1+i%250)
		if i == moved {
			address = "127.3.0.1"
		}
		s.Hosts = append(s.Hosts, model.SliceHost{Address: address, Hostname: fmt.Sprint("db-", i)})
	}
	return state.Update{Key: s.Key(), Objects: []model.Object{s}}
}

// namedMesh is a mesh with a headless service of 100 pods, and a sidecar whose workload gets names
// if captured is set.
func namedMesh(t *testing.T, services int, captured bool) *meshOf {
	m := newMeshOf(t, services)
	db := &model.Service{
		Meta: model.Meta{Kind: kinds.Service, Namespace: "ns0", Name: "db"}, Host: "db.ns0.svc.cluster.local",
		Headless: true, ExportTo: model.Exports{All: true},
		Ports: []model.ServicePort{{Name: "tcp", Port: 3306, Protocol: model.TCP}},
	}
	m.apply(state.Update{Key: db.Key(), Objects: []model.Object{db}}, podsOf(100, -1))
	m.compiler.Join(Facts{Proxy: scope.Proxy{
		Address:   "127.0.0.3",
		Namespace: "ns1", Name: "named", Settings: scope.Settings{Intercepted: true, DNSCapture: captured},
	}}, func(_ *Member, p Placement) {
		names := 0
		if captured {
			names = 101 // those of the headless service alone: the others have no addresses
		}
		require.Equal(t, names, p.State.Set(resource.Name).Len())
	})
	return m
}

// A pod of a headless service that moves compiles its own name and that of the service, and the
// listeners at its two addresses, however large the mesh and the service are.
func TestOneMovedPodCompilesTwoNames(t *testing.T) {
	for _, services := range []int{10, 500} {
		m := namedMesh(t, services, true)
		before := m.compiler.Stats().Translate["name"]
		work := m.workOf(func() { m.apply(podsOf(100, 7)) })
		after := m.compiler.Stats().Translate["name"]
		require.EqualValues(t, 2+2, work.Units)
		require.EqualValues(t, 2, after.Misses-before.Misses)
		require.EqualValues(t, 0, after.Hits-before.Hits)
	}
}

// A pod that comes to a headless service or leaves it is one listener that comes or goes: those at
// the addresses of the other pods stay what they are, so Envoy drains no connection to these.
func TestAMovedPodOfAHeadlessServiceChangesNoOtherListener(t *testing.T) {
	m := namedMesh(t, 10, false)
	listeners := func() map[string]resource.Version {
		found := map[string]resource.Version{}
		for _, c := range m.compiler.classes {
			set := c.state.Set(resource.Listener)
			for _, name := range set.Names() {
				if c.key.Settings.Intercepted {
					found[name] = set.Get(name).Version()
				}
			}
		}
		return found
	}
	before := listeners()
	m.apply(podsOf(100, 7))
	after := listeners()
	require.Contains(t, before, "127.2.0.8_3306")
	require.Contains(t, after, "127.3.0.1_3306")
	delete(before, "127.2.0.8_3306")
	delete(after, "127.3.0.1_3306")
	require.Equal(t, before, after)
}

// Where nobody gets names, nobody pays for them.
func TestWithoutAgentsThatAnswerDNSNoNameIsCompiled(t *testing.T) {
	m := namedMesh(t, 10, false)
	work := m.workOf(func() { m.apply(podsOf(100, 7)) })
	require.EqualValues(t, 2, work.Units, "the listeners at the pod's addresses")
	require.Zero(t, m.compiler.Stats().Translate["name"].Misses)
}
