package compile

import (
	"strconv"
	"strings"
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// toyKind is all that it takes to add a kind of unit: a secret for each host that says how many
// ports it has.
type toyKind struct{}

func toyUnit(host model.Host) unit { return unit{kind: toyKind{}, host: host} }

func (toyKind) String() string { return "toy" }

func (toyKind) all(s *scope.Scope, add func(unit)) {
	for h := range s.Hosts() {
		add(toyUnit(h))
	}
}

func (toyKind) mark(*impact) {}

func (toyKind) differs(*impact, *scope.Class, *scope.Class) {}

func (toyKind) touched(m *impact, from, to *scope.Scope, found causes[unit]) {
	m.eachHost(from, to, func(h model.Host, by cause) { found.add(toyUnit(h), by) })
}

func (toyKind) slots(b unitBuilder, s *scope.Scope, u unit, _ func(source.Problem)) []slot {
	svc := s.Service(u.host)
	if svc == nil {
		return nil
	}
	name := "toy " + string(u.host) + " " + strconv.Itoa(len(svc.Ports))
	return []slot{{typ: resource.Secret, name: name, get: func() emitted {
		return b.emit(made{name: name, message: &tlsv3.Secret{Name: name}}, patched{})
	}}}
}

// A new kind of unit is compiled, shared, built in chunks and taken from base classes as all are.
func TestNewKindOfUnitIsOneDeclaration(t *testing.T) {
	found := false
	rapid.Check(t, func(r *rapid.T) {
		o := oracleOf(t, append(unitKinds(), toyKind{}))
		o.live(r, random, func(meshlife.Change, outcome) {})
		for _, cl := range o.comp.list {
			for s := range cl.state.Set(resource.Secret).All() {
				found = found || strings.HasPrefix(s.Name(), "toy ")
			}
		}
	})
	require.True(t, found)
}

// Kinds have names of their own, and no state, so that units compare.
func TestKindsOfUnitsAreToldApart(t *testing.T) {
	names := map[string]bool{}
	for _, k := range unitKinds() {
		require.False(t, names[k.String()], k)
		names[k.String()] = true
		require.Equal(t, unit{kind: k}, unit{kind: k})
	}
}

// A unit that is compiled again goes with the object whose change touched it.
func TestTouchedUnitHasItsCause(t *testing.T) {
	m := newMeshOf(t, 20)
	routes := routesOfService(7, 1)
	_, d := m.writer.Apply([]state.Update{routes, serviceNumber(3, 1)})
	cl := m.compiler.list[0]
	of := m.compiler.builder.impactOf(d, m.compiler.builder.newFastPath(d), false)
	_, found := of.units(&cl.scope, m.compiler.builder.scope(d.To, cl))

	by := map[model.Host]source.Key{}
	for u, c := range found {
		if u.kind == (hostKind{}) {
			by[u.host] = of.objectOf(c)
		}
	}
	vs := routes.Objects[0].(*model.VirtualService)
	require.Equal(t, vs.Key(), by[vs.Hosts[0]])
	svc := serviceNumber(3, 1).Objects[0].(*model.Service)
	require.Equal(t, svc.Key(), by[svc.Host])
}

// objectsIn returns the objects that a delta has: source objects, and what several of them are
// together.
func objectsIn(d *state.Delta) map[source.Key]bool {
	changed := map[source.Key]bool{}
	for _, k := range d.Changed {
		changed[k] = true
	}
	for _, p := range d.Services {
		changed[p.Either().Key()] = true
	}
	for _, p := range d.VirtualServices {
		changed[p.Either().Key()] = true
	}
	for _, p := range d.Gateways {
		changed[p.Either().Key()] = true
	}
	for _, p := range d.BackendPolicies {
		changed[p.Either().Key()] = true
	}
	for _, p := range d.KeySets {
		changed[p.Either().Key()] = true
	}
	for _, e := range d.Endpoints {
		changed[endpointsOf(e)] = true
	}
	for _, a := range d.Accounts {
		changed[serviceKey(a.Host, a.Namespace, a.Entry)] = true
	}
	return changed
}

// requireCauses checks that each touched unit is touched by an object that the delta has.
func requireCauses(t *rapid.T, m *impact, found causes[unit]) {
	changed := objectsIn(m.delta)
	for u, by := range found {
		key := m.objectOf(by)
		require.True(t, changed[key], "%s %+v by %s of %v", u.kind, u, key, m.delta.Changed)
	}
}
