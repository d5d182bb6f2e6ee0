package state

import (
	"maps"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

func isNaivelyCalledByPod(svc *model.Service) bool {
	switch {
	case len(svc.Addresses) > 0 || svc.AutoAddress: // which is its address
		return false
	case svc.Kind == kinds.ServiceEntry && svc.Resolution == model.Passthrough && !svc.Selector.IsEmpty():
		return true
	}
	return svc.Headless
}

// requireServicesOfPods compares which services have an endpoint at an address, at all addresses
// that an endpoint has.
func requireServicesOfPods(t *rapid.T, d naiveSnapshot, s *Snapshot, port uint16) {
	found := map[string][]*model.Service{"192.0.2.99": nil}
	for _, svc := range having(d, func(_ *model.Service, p model.ServicePort) bool { return p.Port == port }) {
		p, _ := svc.Port(port)
		for _, e := range d.endpoints(naiveID(svc)) {
			for _, address := range []string{e.Address, e.Other} {
				if isNaivelyCalledByPod(svc) && e.PortName == p.Name && !slices.Contains(found[address], svc) {
					found[address] = append(found[address], svc)
				}
			}
		}
	}
	delete(found, "")
	for address, services := range found {
		requireList(t, "services with a pod at "+address, services, slices.Values(s.ServicesOfPod(address, port)))
	}
	require.Equal(t, s.HasServicesCalledByPod(), len(of(d, isNaivelyCalledByPod)) > 0)
}

// requireAllTakeTLS compares whether all endpoints of a service's ports take TLS, and whether a
// rule has its calls go to the address that the caller picked.
func requireAllTakeTLS(t *rapid.T, d naiveSnapshot, s *Snapshot, svc *model.Service) {
	endpoints := slices.Collect(maps.Values(d.endpoints(naiveID(svc))))
	for _, p := range svc.Ports {
		lacks := slices.ContainsFunc(endpoints, func(e model.Endpoint) bool { return e.PortName == p.Name && !e.TLS })
		all := len(endpoints) > 0 && !lacks
		require.Equal(t, all, s.Endpoints(svc).AllTakeTLS(p.Name), "%s of %s", p.Name, svc.Host)
	}
	rules := of(d, func(r *model.DestinationRule) bool {
		return r.PassesThrough() && (r.Host == svc.Host || r.Host.IsWildcard() && under(r.Host, svc.Host))
	})
	require.Equal(t, len(rules) > 0, s.PassesThrough(svc.Host), svc.Host)
}
