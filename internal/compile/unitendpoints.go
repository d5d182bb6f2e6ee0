package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
)

// endpointsKind is the endpoints alone of one host. They are part of the host's unit too: a class
// that compiles that has no need of this one.
type endpointsKind struct{}

func endpointsUnit(host model.Host) unit { return unit{kind: endpointsKind{}, host: host} }

func (endpointsKind) String() string { return "endpoints" }

func (endpointsKind) all(*scope.Scope, func(unit)) {}

func (endpointsKind) mark(m *impact) {
	for _, e := range m.delta.Endpoints {
		if m.fastPath.slowHosts.has(e.Host) {
			m.endpoints = m.endpoints.with(e.Host, m.because(endpointsOf(e)))
		}
	}
}

func (endpointsKind) differs(*impact, *scope.Class, *scope.Class) {}

func (endpointsKind) touched(m *impact, _, _ *scope.Scope, found causes[unit]) {
	for h, by := range m.endpoints {
		if !m.hosts.has(h) {
			found.add(endpointsUnit(h), by)
		}
	}
}

func (endpointsKind) slots(b unitBuilder, s *scope.Scope, u unit, _ func(source.Problem)) []slot {
	return append(b.clusterSlots(s, u.host, true), b.forwardSlots(s, u.host, true)...)
}
