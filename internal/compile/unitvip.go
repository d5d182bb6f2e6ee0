package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
)

// vipKind is the listener of a virtual IP and a port, or of a pod's address and a port, for
// intercepted connections. The address stands in the unit's host.
type vipKind struct{}

func vipUnit(address string, port uint16) unit {
	return unit{kind: vipKind{}, host: model.Host(address), port: port}
}

func (vipKind) String() string { return "virtual IP" }

func (vipKind) all(s *scope.Scope, add func(unit)) {
	if !s.Intercepts() || s.Type() != scope.Sidecar {
		return
	}
	for h := range s.Hosts() {
		if svc := s.Service(h); svc != nil {
			for _, u := range vipUnits(s, svc) {
				add(u)
			}
		}
	}
}

func (vipKind) mark(m *impact) {
	for _, e := range m.delta.Endpoints {
		m.addPods(e)
	}
}

func (vipKind) differs(*impact, *scope.Class, *scope.Class) {}

func (vipKind) touched(m *impact, from, to *scope.Scope, found causes[unit]) {
	if to.Intercepts() {
		for u, by := range m.vips {
			found.add(u, by)
		}
	}
	if !to.NamesHosts() {
		return
	}
	for h, by := range m.hosts { // an address of the mesh's range may be another one
		for _, s := range []*scope.Scope{from, to} {
			if svc := s.Service(h); svc != nil {
				for _, u := range vipUnits(s, svc) {
					found.add(u, by)
				}
			}
		}
	}
}

func (vipKind) slots(b unitBuilder, s *scope.Scope, u unit, report func(source.Problem)) []slot {
	return b.vipSlots(s, u, report)
}

// vipUnits returns the units for the virtual IPs of a service, or for the addresses of its pods.
func vipUnits(s *scope.Scope, svc *model.Service) []unit {
	if !s.Intercepts() {
		return nil
	}
	if svc.IsCalledByPod() {
		return podUnits(svc, s.Endpoints(svc))
	}
	var units []unit
	for _, p := range svc.Ports {
		if needsTCPListener(p.Protocol) {
			for _, address := range s.VIPs(svc) {
				units = append(units, vipUnit(address, p.Port))
			}
		}
	}
	return units
}
