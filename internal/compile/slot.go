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

// unit is a part of a class's configuration that is compiled at once, and that a change of the world may touch: a delta is
// turned into units, and only these are compiled again. Each resource belongs to exactly one unit.
type unit struct {
	kind  unitKind
	host  model.Host
	port  uint16
	table string // of unitGatewayHost: the route table
	name  string // of unitSecret: the credential
}

type unitKind uint8

const (
	// unitOwn is what a proxy has whatever it calls: of a sidecar inbound ports, the HTTP proxy port, its route table.
	unitOwn unitKind = iota
	// unitHost is what it takes to call one host: clusters, their endpoints, virtual hosts.
	unitHost
	// unitEndpoints are the endpoints alone of one host.
	unitEndpoints
	// unitPort is the TCP listener of one port; with a host, what is wrong with that host on it. See port.go.
	unitPort
	// unitVIP is the listener of a virtual IP, which stands in the unit's host, and a port, for intercepted connections.
	unitVIP
	// unitGateway is a gateway's port: its listener and its route table.
	unitGateway
	// unitGatewayHost is one virtual host of a gateway's port.
	unitGatewayHost
	// unitSecret is a credential: its certificate, and the authorities that go with it.
	unitSecret
)

// slot is one resource of a unit, by name, with the means to make it. A virtual host stands in a table; a table has a head.
type slot struct {
	typ   resource.Type
	table string // of a virtual host: the route table that it belongs to
	name  string
	get   func() *resource.Resource
	vary  func() *varied // of an assignment that is not the same at all places, in place of get
	head  func() []byte  // of a route table
}

// compiler turns units of a scope into slots. It reads the scope alone.
type compiler struct{ *workshop }

// scope looks at a world as a class does.
func (c compiler) scope(w *state.Snapshot, cl *class) *scope.Scope {
	s := scope.New(w, &cl.key)
	s.Evaluations = &c.work.Evaluations
	return s
}

// slots lists the resources of a unit. What is wrong on the way is told to report.
func (c compiler) slots(s *scope.Scope, u unit, report func(source.Problem)) []slot {
	switch u.kind {
	case unitOwn:
		return c.own(s, report)
	case unitHost:
		c.reportClosed(s, u.host, report)
		return slices.Concat(c.clusterSlots(s, u.host, false), c.forwardSlots(s, u.host, false), c.vhostSlots(s, u.host))
	case unitEndpoints:
		return append(c.clusterSlots(s, u.host, true), c.forwardSlots(s, u.host, true)...)
	case unitVIP:
		return c.vipSlots(s, u, report)
	case unitGateway:
		return c.gatewaySlots(s, u.port, report)
	case unitSecret:
		return c.secretSlots(s, u.name)
	default:
		return c.gatewayHostSlots(s, u)
	}
}

// units lists all units of a scope, for compiling from nothing, and the ports that have listeners of their own.
func (c compiler) units(s *scope.Scope) (units []unit, ports map[uint16]bool) {
	ports = map[uint16]bool{}
	for h := range s.Hosts() {
		units = append(units, unit{kind: unitHost, host: h})
		if svc := s.Service(h); svc != nil && s.Type() == scope.Sidecar {
			for _, p := range svc.Ports {
				if explicit(p.Protocol) {
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

// explicit tells whether a port gets a TCP listener of its own: what is HTTP goes through the HTTP proxy port.
func explicit(p model.Protocol) bool { return !p.IsHTTP() && p != model.UDP }

func portText(port uint16) string { return strconv.Itoa(int(port)) }
