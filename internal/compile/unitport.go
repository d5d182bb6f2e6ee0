package compile

import (
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
)

// portKind is what one host lacks at a TCP port that another has. Such a unit has problems alone.
// The port's listener depends on who has the port and on whether its route table exists, so it is
// compiled for itself, after all units (port.go).
type portKind struct{}

func (portKind) String() string { return "port" }

func (portKind) all(*scope.Scope, func(unit)) {}

func (portKind) mark(*impact) {}

func (portKind) differs(*impact, *scope.Class, *scope.Class) {}

func (portKind) touched(*impact, *scope.Scope, *scope.Scope, causes[unit]) {}

func (portKind) slots(unitBuilder, *scope.Scope, unit, func(source.Problem)) []slot { return nil }

// listenerPorts returns the ports of a class that have TCP listeners; nil for a gateway.
func listenerPorts(s *scope.Scope) map[uint16]bool {
	if s.Type() != scope.Sidecar {
		return nil
	}
	ports := map[uint16]bool{}
	for h := range s.Hosts() {
		if svc := s.Service(h); svc != nil {
			for _, p := range svc.Ports {
				if needsTCPListener(p.Protocol) {
					ports[p.Port] = true
				}
			}
		}
	}
	return ports
}
