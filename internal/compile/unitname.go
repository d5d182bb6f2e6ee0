package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
)

// nameKind is a name that workloads may look up: the host of a service, or of a pod of a headless
// service. So a pod that comes or goes compiles its own name and that of its service. Classes whose
// workloads resolve names otherwise have no such units.
type nameKind struct{}

func nameUnit(host model.Host) unit { return unit{kind: nameKind{}, host: host} }

func (nameKind) String() string { return "name" }

func (nameKind) all(s *scope.Scope, add func(unit)) {
	for h := range s.Hosts() {
		for _, u := range nameUnits(s, h) {
			add(u)
		}
	}
}

// mark marks the names of services that are called by their changed endpoints, and of their pods,
// and hosts with another address of the mesh's range.
func (nameKind) mark(m *impact) {
	if !m.anyNames {
		return
	}
	for i, host := range m.delta.AutoAddresses {
		if i == 0 {
			m.because(m.delta.Services[0].Either().Key()) // one of those that came or went
		}
		m.addClaimants(host)
	}
	for _, e := range m.delta.Endpoints {
		if m.isNamedByEndpoints(e.Host) {
			m.addChangedPods(e)
		}
	}
}

func (nameKind) differs(*impact, *scope.Class, *scope.Class) {}

func (nameKind) touched(m *impact, from, to *scope.Scope, found causes[unit]) {
	if !to.NamesHosts() {
		return
	}
	for h, by := range m.names {
		found.add(nameUnit(h), by)
	}
	for h, by := range m.hosts {
		for _, s := range []*scope.Scope{from, to} {
			for _, u := range nameUnits(s, h) {
				found.add(u, by)
			}
		}
	}
}

func (nameKind) slots(b unitBuilder, s *scope.Scope, u unit, report func(source.Problem)) []slot {
	return b.nameSlots(s, u.host, report)
}

// nameUnits returns the units of a service's names.
func nameUnits(s *scope.Scope, host model.Host) []unit {
	if !s.NamesHosts() {
		return nil
	}
	units := []unit{nameUnit(host)}
	if svc := s.Service(host); svc != nil && svc.Headless {
		for _, e := range s.Endpoints(svc).All() {
			if e.Hostname != "" {
				units = append(units, nameUnit(podHost(e.Hostname, host)))
			}
		}
	}
	return units
}
