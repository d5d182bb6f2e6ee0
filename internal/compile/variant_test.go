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

const (
	zones       = 3
	zoneProxies = 1000
)

// zonedMesh has 100 services with an endpoint in each zone, the first of which fails over from zone
// to zone, and proxies of one class in all zones.
type zonedMesh struct {
	meshOf
	placed map[*Member]Placement
}

func newZonedMesh(t *testing.T) *zonedMesh {
	m := &zonedMesh{meshOf: meshOf{writer: state.NewWriter(), compiler: NewCompiler(Refusals{
		Endpoint: func(e model.Endpoint, err error) { t.Errorf("%v: %v", e, err) },
		Resource: func(name string, err error) { t.Errorf("%s: %v", name, err) },
		Patch:    func(r RefusedPatch) { t.Errorf("%+v", r) },
	})}, placed: map[*Member]Placement{}}
	var updates []state.Update
	for i := range 100 {
		updates = append(updates, serviceNumber(i, 0), zonedEndpoints(i, 0))
	}
	for n := range zones {
		updates = append(updates, nodeAt(n, zone(n)))
	}
	m.apply(append(updates, failingOver(0, true))...)
	for i := range zoneProxies {
		m.compiler.Join(Facts{Proxy: scope.Proxy{
			Address:   fmt.Sprint("127.2.0.", i%250),
			Namespace: "ns0",
			Name:      fmt.Sprint("p", i),
			Settings:  scope.Settings{HTTPProxyPort: 15080},
			Place:     &scope.Place{Locality: zone(i)},
		}}, func(m2 *Member, p Placement) { m.placed[m2] = p })
	}
	return m
}

func zone(i int) model.Locality { return model.Locality{Region: "r", Zone: fmt.Sprint("z", i%zones)} }

func zonedEndpoints(i int, port uint16) state.Update {
	u := endpointOf(i, 1)
	s := u.Objects[0].(*model.EndpointSlice)
	s.Hosts, s.Ports[0].Port = nil, 8080+port
	for z := range zones {
		s.Hosts = append(s.Hosts, model.SliceHost{
			Address: fmt.Sprintf("127.1.%d.%d", i, z+1),
			Node:    fmt.Sprint("n", z),
			Zone:    fmt.Sprint("z", z),
		})
	}
	return u
}

func failingOver(i int, ejects bool) state.Update {
	r := &model.DestinationRule{
		Meta:     model.Meta{Kind: kinds.DestinationRule, Namespace: fmt.Sprint("ns", i), Name: fmt.Sprint("svc", i)},
		ExportTo: model.Exports{All: true},
		Host:     model.Resolve(fmt.Sprint("svc", i), fmt.Sprint("ns", i), "cluster.local"),
		Policy:   &model.TrafficPolicy{},
	}
	if ejects {
		r.Policy.Outlier = &model.OutlierDetection{}
	}
	return state.Update{Key: r.Key(), Objects: []model.Object{r}}
}

func nodeAt(n int, at model.Locality) state.Update {
	node := &model.Node{Meta: model.Meta{Kind: kinds.Node, Name: fmt.Sprint("n", n)}, Locality: at}
	return state.Update{Key: node.Key(), Objects: []model.Object{node}}
}

// assignments is how many were made since the start, and how many of them came to bytes that were
// there.
func (m *zonedMesh) assignments() TranslateStats { return m.compiler.Stats().Translate["assignment"] }

// A thousand proxies in three zones cost three assignments of the one cluster that depends on the
// zone, and one of each other cluster. A class has as many states as it has places that matter.
func TestVariantsCostOnlyTheirOwnAssignments(t *testing.T) {
	m := newZonedMesh(t)
	require.Equal(t, 1, m.compiler.Stats().Classes)
	require.Equal(t, uint64(99+zones), m.assignments().Misses)
	states := map[resource.ClassID]resource.State{}
	for _, p := range m.placed {
		states[p.Class] = p.State
	}
	require.Len(t, states, zones)

	for _, c := range []struct {
		what  string
		apply state.Update
		made  uint64
	}{
		{"endpoints of the cluster that fails over", zonedEndpoints(0, 1), zones},
		{"endpoints of another", zonedEndpoints(1, 1), 1},
		{"another service's port", serviceNumber(2, 1), 1},
	} {
		before := m.assignments().Misses
		m.apply(c.apply)
		require.Equal(t, c.made, m.assignments().Misses-before, c.what)
		require.Len(t, m.last.Changed, zones, c.what)
		require.Empty(t, m.last.Moved, c.what)
	}
	require.Zero(t, m.assignments().Equal)
}

// Without a cluster that depends on the place, all proxies of the class have one state, and no
// variant is left.
func TestVariantsGoWhenPlacesCeaseToCount(t *testing.T) {
	m := newZonedMesh(t)
	m.apply(failingOver(0, false))
	require.Len(t, m.last.Moved, zoneProxies)
	one := m.last.Moved[0].Placement
	for _, moved := range m.last.Moved {
		require.Equal(t, one.Class, moved.Class)
		require.True(t, one.State == moved.State)
	}
	require.Len(t, m.compiler.classes[m.last.Moved[0].Member.variant.class.key].variants.list, 1)

	m.apply(failingOver(0, true))
	places := map[resource.ClassID]int{}
	for _, moved := range m.last.Moved {
		places[moved.Class]++
	}
	require.Len(t, places, zones)
}

// A node that is learnt late moves the proxies on it, and the endpoints on it, and nothing else.
func TestALateNodeMovesWhatIsOnIt(t *testing.T) {
	m := newZonedMesh(t)
	pod := func(name string, node int) state.Update {
		w := &model.Workload{Meta: model.Meta{
			Kind:      kinds.Pod,
			Namespace: "ns0",
			Name:      name,
		}, Node: fmt.Sprint("n", node), Addresses: []string{"127.2.0.1"}}
		return state.Update{Key: w.Key(), Objects: []model.Object{w}}
	}
	m.apply(pod("p0", 0), pod("p1", 7)) // now it is what their nodes say, which are not known
	require.Len(t, m.last.Moved, 2)

	m.apply(nodeAt(7, zone(2)))
	require.Len(t, m.last.Moved, 1)
	require.Equal(t, "p1", m.last.Moved[0].Member.known.Proxy.Name)
	require.Empty(t, m.last.Changed)

	before := m.assignments().Misses
	m.apply(nodeAt(0, zone(zones-1)), nodeAt(1, zone(1)))
	require.Len(t, m.last.Moved, 1)
	require.Equal(t, "p0", m.last.Moved[0].Member.known.Proxy.Name)
	// The endpoint on it moves in all services: one assignment each, and of the one that fails over
	// one for each place.
	require.Equal(t, uint64(99+zones), m.assignments().Misses-before)
}
