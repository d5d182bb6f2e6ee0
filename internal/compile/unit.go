package compile

import (
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
	table string // of unitGatewayHost: the route table
	name  string // of unitSecret: the credential
}

type unitKind uint8

const (
	// unitOwn is what a proxy has whatever it calls: the filters of its policies, and of a sidecar
	// the inbound ports, the HTTP proxy port and its route table.
	unitOwn unitKind = iota
	// unitHost is what it takes to call one host: clusters, their endpoints, virtual hosts.
	unitHost
	// unitEndpoints is the endpoints alone of one host.
	unitEndpoints
	// unitPort is the TCP listener of one port; with a host, the problems of that host on it
	// (port.go).
	unitPort
	// unitVIP is the listener of a virtual IP and a port, for intercepted connections. The IP
	// stands in the unit's host.
	unitVIP
	// unitGateway is a gateway's port: its listener and its route table.
	unitGateway
	// unitGatewayHost is one virtual host of a gateway's port.
	unitGatewayHost
	// unitName is a name that workloads look up: the host of a service, or of a pod (name.go).
	unitName
	// unitSecret is a credential: its certificate, and the authorities that go with it.
	unitSecret
)

// slot is one resource of a unit, by name, with the function that makes it. A virtual host stands
// in a table; a table has a head.
type slot struct {
	typ   resource.Type
	table string // of a virtual host: the route table that it belongs to
	name  string
	get   func() *resource.Resource
	vary  func() *varied // in place of get, of an assignment that differs between places
	head  func() []byte  // of a route table
}

// unitBuilder turns units of a scope into slots. It reads the mesh through the scope alone.
type unitBuilder struct{ *translationCache }

// scope returns the view of a class on a snapshot.
func (b unitBuilder) scope(snap *state.Snapshot, cl *class) *scope.Scope {
	s := scope.New(snap, &cl.key)
	if b.counts != nil {
		s.Evaluations = &b.counts.Evaluations
	}
	return s
}

// slots lists the resources of a unit. It passes problems to report.
func (b unitBuilder) slots(s *scope.Scope, u unit, report func(source.Problem)) []slot {
	switch u.kind {
	case unitOwn:
		return b.own(s, report)
	case unitHost:
		b.reportClosed(s, u.host, report)
		return slices.Concat(
			b.clusterSlots(s, u.host, false), b.forwardSlots(s, u.host, false), b.vhostSlots(s, u.host),
		)
	case unitEndpoints:
		return append(b.clusterSlots(s, u.host, true), b.forwardSlots(s, u.host, true)...)
	case unitVIP:
		return b.vipSlots(s, u, report)
	case unitGateway:
		return b.gatewaySlots(s, u.port, report)
	case unitName:
		return b.nameSlots(s, u.host, report)
	case unitSecret:
		return b.secretSlots(s, u.name)
	default:
		return b.gatewayHostSlots(s, u)
	}
}

// units lists all units of a scope, for compiling from nothing, and the ports that have TCP
// listeners.
func (b unitBuilder) units(s *scope.Scope) (units []unit, ports map[uint16]bool) {
	ports = map[uint16]bool{}
	for h := range s.Hosts() {
		units = append(units, unit{kind: unitHost, host: h})
		units = append(units, nameUnits(s, h)...)
		if svc := s.Service(h); svc != nil && s.Type() == scope.Sidecar {
			for _, p := range svc.Ports {
				if needsTCPListener(p.Protocol) {
					ports[p.Port] = true
				}
			}
			units = append(units, vipUnits(s, svc)...)
		}
	}
	units = append(units, secretUnits(s)...)
	if s.Type() == scope.Sidecar {
		return append(sortedUnique(units), unit{kind: unitOwn}), ports
	}
	return append(units, gatewayUnits(s)...), nil
}

// needsTCPListener reports whether a port needs a TCP listener. HTTP goes through the HTTP proxy
// port.
func needsTCPListener(p model.Protocol) bool { return !p.IsHTTP() && p != model.UDP }

func portText(port uint16) string { return strconv.Itoa(int(port)) }
