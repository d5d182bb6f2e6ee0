package compile

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// unit is a part of a class's configuration that is compiled as a whole. A delta is turned into the
// units that it may touch, and only these are compiled again. Each resource belongs to exactly one
// unit.
type unit struct {
	kind  unitKind
	host  model.Host
	port  uint16
	table string // of gatewayHostKind: the route table
	name  string // of secretKind: the credential; of a gateway's port: the address that servers ask for
}

// unitKind declares a kind of unit: all that the compiler knows of it. Kinds have no state of their
// own, so that units compare with ==. unitKinds lists them.
type unitKind interface {
	// String returns the kind's name, which no other kind has.
	String() string

	// all adds the units that a scope has.
	all(s *scope.Scope, add func(unit))

	// mark adds to the impact what its delta may touch in any class: hosts, ports and the like.
	// What one kind marks, others read in touched.
	mark(m *impact)

	// differs adds to the impact in what units of two classes of sidecars may differ.
	differs(m *impact, a, b *scope.Class)

	// touched adds the units of a class that the impact may touch. The class sees the mesh through
	// from before the delta, and through to after it.
	touched(m *impact, from, to *scope.Scope, found causes[unit])

	// slots lists the resources of a unit. It passes problems to report.
	slots(b unitBuilder, s *scope.Scope, u unit, report func(source.Problem)) []slot
}

// unitKinds are all kinds of units.
func unitKinds() []unitKind {
	return []unitKind{
		ownKind{}, hostKind{}, endpointsKind{}, portKind{}, vipKind{}, gatewayKind{}, gatewayHostKind{}, nameKind{},
		secretKind{}, addedKind{},
	}
}

// compareUnits is the order in which units are compiled. Nothing depends on it.
func compareUnits(a, b unit) int {
	return cmp.Or(
		cmp.Compare(a.kind.String(), b.kind.String()), cmp.Compare(a.host, b.host), cmp.Compare(a.port, b.port),
		cmp.Compare(a.table, b.table), cmp.Compare(a.name, b.name),
	)
}

func sortedUnique(units []unit) []unit {
	slices.SortFunc(units, compareUnits)
	return slices.Compact(units)
}

// slot is one resource of a unit, by name, with the function that makes it. A virtual host stands
// in a table; a table has a head.
type slot struct {
	typ   resource.Type
	table string // of a virtual host: the route table that it belongs to
	name  string
	get   func() emitted
	vary  func() *varied // in place of get, of what differs between places
	head  func() emitted // of a route table
}

// unitBuilder turns units of a scope into slots. It reads the mesh through the scope alone.
type unitBuilder struct {
	*translationCache
	kinds []unitKind
}

// scope returns the view of a class on a snapshot.
func (b unitBuilder) scope(snap *state.Snapshot, cl *class) *scope.Scope {
	s := scope.New(snap, &cl.key)
	if b.counts != nil {
		s.Evaluations = &b.counts.Evaluations
	}
	return s
}

// units lists all units of a scope, for compiling from nothing, and the ports that have TCP
// listeners.
func (b unitBuilder) units(s *scope.Scope) (units []unit, ports map[uint16]bool) {
	for _, k := range b.kinds {
		k.all(s, func(u unit) { units = append(units, u) })
	}
	return sortedUnique(units), listenerPorts(s)
}

// needsTCPListener reports whether a port needs a TCP listener. HTTP goes through the HTTP proxy
// port.
func needsTCPListener(p model.Protocol) bool { return !p.IsHTTP() && p != model.UDP }

func portText(port uint16) string { return strconv.Itoa(int(port)) }
