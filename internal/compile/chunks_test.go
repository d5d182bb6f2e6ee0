package compile

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// meshWithoutProxies has n services with an endpoint each.
func meshWithoutProxies(n int) *meshOf {
	m := &meshOf{writer: state.NewWriter(), compiler: NewCompiler(Refusals{})}
	var updates []state.Update
	for i := range n {
		updates = append(updates, serviceNumber(i, 0), endpointOf(i, 1))
	}
	m.apply(updates...)
	return m
}

func proxyIn(namespace string) Facts {
	return Facts{Proxy: scope.Proxy{
		Address:   "127.0.0.2",
		Namespace: namespace,
		Name:      "p",
		Settings:  scope.Settings{HTTPProxyPort: 15080},
	}}
}

// The first class of its kind is compiled in chunks, and a generation that comes meanwhile waits
// for one chunk only.
func TestGenerationsRunBetweenChunks(t *testing.T) {
	const services, slice = 200, 10
	m := meshWithoutProxies(services)
	m.compiler.chunkSize = slice
	first := newMember(proxyIn("ns1"))
	var placed Placement
	enter := func(_ *Member, p Placement) { placed = p }
	generations := 0
	for !m.compiler.tryJoin(first, nil, enter) {
		work := m.workOf(func() { m.compiler.buildFor(first, nil) })
		require.LessOrEqual(t, work.Units, uint64(slice))
		switch i := generations; i % 4 {
		case 0:
			m.apply(endpointOf(i, 2))
		case 1:
			m.apply(routesOfService(services-i, 1))
		case 2:
			m.apply(serviceNumber(i, 1), serviceNumber(services-i, 1))
		case 3:
			m.apply(state.Update{Key: serviceNumber(i, 0).Key}, serviceNumber(services+i, 0), endpointOf(services+i, 1))
		}
		require.Empty(t, m.last.Changed, "no proxy has the class yet")
		generations++
	}
	require.GreaterOrEqual(t, generations, services/slice)
	require.Nil(t, m.compiler.building)
	require.Equal(t, dump(placeIn(t, m.writer.Snapshot(), first.known.Proxy).state), dump(placed.State))
	m.apply(endpointOf(services/2, 3))
	require.Len(t, m.last.Changed, 1, "from here on it is as any class")
}

// tcpNumber is a service that wants a port, which belongs to one of all that want it.
func tcpNumber(i int, port uint16) state.Update {
	u := serviceNumber(i, 0)
	u.Objects[0].(*model.Service).Ports = []model.ServicePort{{Name: "tcp", Port: port, Protocol: model.TCP}}
	return u
}

// Ports appear, change owners and disappear while a class is built, whether they existed when the
// build began or not. The listeners are right, and each service that lost a port is reported once.
func TestPortsChangeOwnersBetweenChunks(t *testing.T) {
	const services = 60
	m := meshWithoutProxies(services)
	m.apply(tcpNumber(1, 6000), tcpNumber(2, 6000), tcpNumber(3, 6001), tcpNumber(4, 6001))
	m.compiler.chunkSize = 2
	first := newMember(proxyIn("ns1"))
	enter := func(*Member, Placement) {}
	for i := range 16 {
		m.compiler.buildFor(first, nil)
		switch port := uint16(7000 + i/4); i % 4 { // ports that were not there
		case 0:
			m.apply(tcpNumber(10+i, port), tcpNumber(11+i, port))
		case 1:
			m.apply(tcpNumber(12+i, port))
		case 2:
			m.apply(serviceNumber(8+i, 0)) // its owner gives it up
		case 3:
			m.apply(tcpNumber(1+i/4, 6001))
		}
	}
	require.NotNil(t, m.compiler.building.pending, "it grows on")
	for !m.compiler.tryJoin(first, nil, enter) {
		m.compiler.buildFor(first, nil)
	}
	m.apply(endpointOf(services/2, 3)) // a step, so that conflicts are told
	fresh := placeIn(t, m.writer.Snapshot(), first.known.Proxy)
	require.Equal(t, dump(fresh.state), dump(m.compiler.list[0].state))
	require.NotEmpty(t, m.compiler.problems())
	require.Equal(t, fresh.comp.problems(), m.compiler.problems())
}

// Endpoints that differ between places change while a class is built, which has no proxy yet and so
// no place.
func TestVariedEndpointsChangeBetweenChunks(t *testing.T) {
	const services = 20
	for _, swept := range []bool{false, true} {
		m := meshWithoutProxies(services)
		for i := range services {
			m.apply(zonedEndpoints(i, 0), failingOver(i, true))
		}
		for n := range zones {
			m.apply(nodeAt(n, zone(n)))
		}
		m.compiler.chunkSize = 3
		first := newMember(proxyIn("ns1"))
		first.known.Proxy.Place = &scope.Place{Locality: zone(1)}
		var placed Placement
		for !m.compiler.tryJoin(first, nil, func(_ *Member, p Placement) { placed = p }) {
			m.compiler.buildFor(first, nil)
			if swept {
				m.compiler.forgetUnused()
			}
			for i := range services {
				m.apply(zonedEndpoints(i, uint16(m.writer.Snapshot().Generation)))
			}
		}
		require.Equal(t, dump(placeIn(t, m.writer.Snapshot(), first.known.Proxy).state), dump(placed.State))
		m.apply(zonedEndpoints(7, 1))
		require.Len(t, m.last.Changed, 1, "from here on it is as any class")
	}
}

// A class whose proxy gets another class before the build ends is forgotten.
func TestBuildWithoutItsProxyIsAbandoned(t *testing.T) {
	m := meshWithoutProxies(20)
	m.compiler.chunkSize = 1
	gone, other := newMember(proxyIn("ns1")), proxyIn("ns2")
	m.compiler.buildFor(gone, nil)
	m.compiler.buildFor(gone, nil)
	m.compiler.Join(other, func(*Member, Placement) {})
	require.Nil(t, m.compiler.building)
	require.Equal(t, 1, m.compiler.Stats().Classes)
}

// Proxies of several new classes join at the same time while generations run. Each has what it
// should.
func TestProxiesOfNewClassesJoinAtOnce(t *testing.T) {
	const services, kinds, each = 100, 3, 4
	m := meshWithoutProxies(services)
	m.compiler.chunkSize = 3
	var mu sync.Mutex
	at := map[resource.ClassID]resource.State{}
	classes := map[resource.ClassID]Facts{}
	var all sync.WaitGroup
	for i := range kinds * each {
		f := proxyIn(fmt.Sprint("ns", i%each))
		f.Proxy.Settings.HTTPProxyPort += uint16(i % kinds)
		all.Go(func() {
			m.compiler.Join(f, func(_ *Member, p Placement) {
				mu.Lock()
				defer mu.Unlock()
				at[p.Class], classes[p.Class] = p.State, f
			})
		})
	}
	for i := range 20 {
		_, d := m.writer.Apply([]state.Update{endpointOf(i, 2), routesOfService(i, 1)})
		m.compiler.Advance(d, func(s Step) {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range s.Changed {
				at[c.Class] = c.State
			}
		})
	}
	all.Wait()
	require.Len(t, classes, kinds*each)
	for class, f := range classes {
		require.Equal(t, dump(placeIn(t, m.writer.Snapshot(), f.Proxy).state), dump(at[class]))
	}
}
