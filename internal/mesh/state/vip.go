package state

import (
	"encoding/binary"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// An intercepted connection tells its destination. The indexes here find the service at it: by
// virtual IP and port, and "loose" ones, which have no address, by port. Those that are called by
// pod are in podaddress.go.

// PortMatch is how the connections to a port are matched to a service if no virtual IP does.
type PortMatch uint8

const (
	// MatchSNI is for TLS: SNI tells the services of a port apart.
	MatchSNI PortMatch = iota
	// MatchPort has the port alone: ServiceEntries without addresses.
	MatchPort
	// MatchCIDR is for ServiceEntries with CIDR ranges for addresses.
	MatchCIDR
	// MatchFiltered is for requests that the listener of the port has a filter for
	// (NeedsFilter). Like all requests they are matched by their host.
	MatchFiltered
)

// PortMatchOf returns how connections to a port of a service are matched without a virtual IP. It
// returns false if virtual IPs match all of them, or the addresses of pods do. It also returns
// false for an alias without SNI: the alias would take all connections to its port, whatever their
// destination, and clients that call it have resolved its name.
func PortMatchOf(svc *model.Service, p model.ServicePort) (kind PortMatch, loose bool) {
	vips := len(svc.VIPs())
	switch {
	case p.Protocol.IsHTTP() || p.Protocol == model.UDP || svc.IsCalledByPod():
		return 0, false
	case vips < len(svc.Addresses):
		return MatchCIDR, true
	case vips > 0:
		return 0, false
	case p.Protocol == model.TLS:
		return MatchSNI, true
	case svc.IsAlias():
		return 0, false
	}
	return MatchPort, true
}

func vipKeys(keys [][]byte, svc *model.Service) [][]byte {
	for _, address := range svc.VIPs() {
		for _, p := range svc.Ports {
			if p.Protocol != model.UDP {
				keys = append(keys, ordered(vipPrefix(address, p.Port), &svc.Meta, svc.Host))
			}
		}
	}
	return keys
}

func portMatchKeys(keys [][]byte, svc *model.Service) [][]byte {
	for _, p := range svc.Ports {
		if kind, loose := PortMatchOf(svc, p); loose {
			keys = append(keys, ordered(portMatchPrefix(p.Port, kind), &svc.Meta, svc.Host))
		}
		if NeedsFilter(svc, p) {
			keys = append(keys, ordered(portMatchPrefix(p.Port, MatchFiltered), &svc.Meta, svc.Host))
		}
	}
	return keys
}

// NeedsFilter reports whether requests to a port of a service need a filter that listeners have for
// some services alone: gRPC-Web is translated, and hosts of resolution DYNAMIC_DNS are looked up.
func NeedsFilter(svc *model.Service, p model.ServicePort) bool {
	return p.Protocol == model.GRPCWeb || p.Protocol.IsHTTP() && svc.Resolution == model.DynamicDNS
}

func vipPrefix(address string, port uint16) []byte {
	return binary.BigEndian.AppendUint16(join(address), port)
}

func portMatchPrefix(port uint16, kind PortMatch) []byte {
	return append(binary.BigEndian.AppendUint16(nil, port), byte(kind))
}
