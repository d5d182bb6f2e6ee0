package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// Services that are called by pod (model.Service.IsCalledByPod) have listeners at the addresses of
// their endpoints. A pod has a listener of its own, not a filter chain beside those of other pods:
// so a pod that comes or goes is one listener, whatever the size of its service, and Envoy drains
// the connections to no other pod (decision 040).

// podUnits returns the units for the addresses of endpoints of a service that is called by pod.
func podUnits(svc *model.Service, set *state.EndpointSet) []unit {
	var units []unit
	for _, e := range set.All() {
		units = appendPodUnits(units, svc, &e)
	}
	return units
}

// appendPodUnits appends the units for the addresses of one endpoint.
func appendPodUnits(units []unit, svc *model.Service, e *model.Endpoint) []unit {
	for _, p := range svc.Ports {
		if p.Name != e.PortName || !needsTCPListener(p.Protocol) {
			continue
		}
		for _, address := range e.IPs() {
			units = append(units, vipUnit(address, p.Port))
		}
	}
	return units
}

// ofPod returns the first service that is called by pod, that the class sees, and that has a pod
// with an address for a port of bytes.
func ofPod(s *scope.Scope, address string, port uint16) *model.Service {
	for _, svc := range s.ServicesOfPod(address, port) {
		if seen, _ := takesBytes(s, svc.Host, port); seen == svc {
			return svc
		}
	}
	return nil
}

// addPods adds the listeners at addresses that endpoints of a service got or lost, if the service
// is called by pod.
func (m *impact) addPods(e state.EndpointChange) {
	for _, snap := range m.snapshots() {
		if m.hasSameServices(snap) || !snap.HasServicesCalledByPod() {
			continue
		}
		for svc := range snap.Claims(e.Host) {
			if !svc.IsCalledByPod() {
				continue
			}
			m.because(endpointsOf(e))
			for _, id := range e.IDs {
				was, old := e.From.Get(id)
				is, now := e.To.Get(id)
				if old && (!now || was.Other != is.Other) {
					m.addVIPs(appendPodUnits(nil, svc, &was))
				}
				if now && (!old || was.Other != is.Other) {
					m.addVIPs(appendPodUnits(nil, svc, &is))
				}
			}
		}
	}
}

// isCalledAsItIs reports whether a host may belong to a service whose calls go to the address that
// the caller picked, so that its clusters are in mutual TLS if all its endpoints are.
func (m *impact) isCalledAsItIs(host model.Host) bool {
	for _, snap := range m.snapshots() {
		if snap.PassesThrough(host) {
			return true
		}
	}
	return m.anyClaimant(host, func(svc *model.Service) bool {
		return svc.Headless || svc.Resolution == model.Passthrough
	})
}
