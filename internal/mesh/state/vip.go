package state

import (
	"encoding/binary"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Where connections are intercepted, the address that they go to tells services apart, and not the port alone. Two indexes
// are for that: services by virtual IP and port, and the others, "loose" ones, by port.

// Loose is how the connections of a port are told apart if no virtual IP does.
type Loose uint8

const (
	// LooseTLS are told apart by SNI.
	LooseTLS Loose = iota
	// LooseTCP are not: headless services, and ServiceEntries without addresses.
	LooseTCP
	// LooseRange are those of ServiceEntries with prefixes for addresses.
	LooseRange
)

// LooseKind tells whether and how a service is loose on a port. One with virtual IPs is not, but for its prefixes. Nor is an alias
// where names do not tell: it would take everybody's connections to its port, wherever they go; who calls it has looked its name up.
func LooseKind(s *model.Service, p model.ServicePort) (kind Loose, loose bool) {
	vips := len(s.VIPs())
	switch {
	case p.Protocol.IsHTTP() || p.Protocol == model.UDP:
		return 0, false
	case vips < len(s.Addresses):
		return LooseRange, true
	case vips > 0:
		return 0, false
	case p.Protocol == model.TLS:
		return LooseTLS, true
	case s.IsAlias():
		return 0, false
	}
	return LooseTCP, true
}

func vipKeys(keys [][]byte, s *model.Service) [][]byte {
	for _, address := range s.VIPs() {
		for _, p := range s.Ports {
			if p.Protocol != model.UDP {
				keys = append(keys, ordered(vipPrefix(address, p.Port), &s.Meta, s.Host))
			}
		}
	}
	return keys
}

func looseKeys(keys [][]byte, s *model.Service) [][]byte {
	for _, p := range s.Ports {
		if kind, loose := LooseKind(s, p); loose {
			keys = append(keys, ordered(loosePrefix(p.Port, kind), &s.Meta, s.Host))
		}
	}
	return keys
}

func vipPrefix(address string, port uint16) []byte {
	return binary.BigEndian.AppendUint16(join(address), port)
}

func loosePrefix(port uint16, kind Loose) []byte {
	return append(binary.BigEndian.AppendUint16(nil, port), byte(kind))
}
