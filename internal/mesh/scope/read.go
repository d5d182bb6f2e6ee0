package scope

import "github.com/lateen-mesh/lateen/internal/api/model"

// What a unit of configuration comes to depends on a class only by what the class's scope answers.
// So classes whose scopes give the same answers come to the same, and a scope can be asked for them
// without compiling the unit again.

// question is one look at a class.
type question struct {
	kind     questionKind
	port     uint16
	name     string // a host or a namespace
	routes   RouteKind
	service  *model.Service
	selector model.Labels
}

type questionKind uint8

const (
	whichService questionKind = iota
	whichRoutes
	whichRule
	whichSidecar
	whichInbound
	whichPortConflicts
	whichPortServices
	whichPool
	whetherSelected
	whetherOwn
	whetherRefuses
	whichMTLSMode
	whichMTLSPolicy
	whichPeerAuthentication
	whichAuthorizationPolicies
	whichRequestAuthentications
	whichTelemetries
	whichEnvoyFilters
	whichProxyMatches
)

// answer compares with ==, so that an object is compared as what it is: a pointer.
type answer struct {
	is  any
	yes bool
}

// ReadSet records the questions that a Scope was asked, and what it answered.
type ReadSet struct {
	list []read
	seen map[question]bool
	// classOnly is set if an answer is for this class only, so that no other class can share it.
	classOnly bool
	// ports is set if an answer depended on workload ports, which ViewKey omits.
	ports bool
}

type read struct {
	question
	answer
}

// NewReadSet returns an empty ReadSet.
func NewReadSet() *ReadSet { return &ReadSet{seen: map[question]bool{}} }

func (s *Scope) asked(q question, a answer) {
	if s.Reads == nil || s.Reads.seen[q] {
		return
	}
	s.Reads.seen[q] = true
	s.Reads.list = append(s.Reads.list, read{q, a})
}

// classOnly records that the present answer is for this class only.
func (s *Scope) classOnly() {
	if s.Reads != nil {
		s.Reads.classOnly = true
	}
}

// dependsOnPorts records that the present answer depends on the ports of the class's workloads.
func (s *Scope) dependsOnPorts() {
	if s.Reads != nil {
		s.Reads.ports = true
	}
}

// HoldsFor reports whether a scope gives all the recorded answers. Its class must have the same
// SharingKey.
func (r *ReadSet) HoldsFor(s *Scope) bool {
	if r.classOnly {
		return false
	}
	for i := range r.list {
		if s.answers(&r.list[i].question) != r.list[i].answer {
			return false
		}
	}
	return true
}

// HoldsForViewKey reports whether all scopes with the same ViewKey give the recorded answers, so
// that they need not be asked.
func (r *ReadSet) HoldsForViewKey() bool { return !r.classOnly && !r.ports }

func (s *Scope) answers(q *question) answer {
	switch q.kind {
	case whichService:
		return answer{is: s.Service(model.Host(q.name))}
	case whichRoutes:
		return answer{is: s.VirtualService(model.Host(q.name), q.port, q.routes)}
	case whichRule:
		return answer{is: s.DestinationRule(q.service)}
	case whichSidecar:
		return answer{is: s.Sidecar()}
	case whichInbound:
		return answer{is: s.Inbound()}
	case whichPortConflicts:
		return answer{is: s.PortConflicts()}
	case whichPortServices:
		return answer{is: s.PortServices()}
	case whichPool:
		return answer{is: s.InboundPool(q.port)}
	case whetherSelected:
		return answer{yes: s.Selected(q.selector)}
	case whetherOwn:
		return answer{yes: s.IsOwn(q.name)}
	case whetherRefuses:
		return answer{yes: s.Refuses(q.port)}
	case whichMTLSMode:
		return answer{is: s.MTLSMode(q.port)}
	case whichMTLSPolicy:
		return answer{is: s.MTLSPolicy(q.port)}
	case whichPeerAuthentication:
		return answer{is: s.mtls().Own}
	case whichAuthorizationPolicies:
		return answer{is: chained(s.AuthorizationPolicies())}
	case whichRequestAuthentications:
		return answer{is: chained(s.RequestAuthentications())}
	case whichTelemetries:
		return answer{is: chained(s.Telemetries())}
	case whichEnvoyFilters:
		return answer{is: chained(s.EnvoyFilters())}
	case whichProxyMatches:
		return answer{is: s.ProxyMatches()}
	}
	return answer{}
}

// Selected reports whether a selector of the snapshot matches the proxies of the class.
func (s *Scope) Selected(selector model.Labels) bool {
	yes := s.class.Selected(selector)
	if !selector.IsEmpty() {
		s.asked(question{kind: whetherSelected, selector: selector}, answer{yes: yes})
	}
	return yes
}

// IsOwn reports whether a namespace is that of the class.
func (s *Scope) IsOwn(namespace string) bool {
	yes := s.class.Namespace == namespace
	s.asked(question{kind: whetherOwn, name: namespace}, answer{yes: yes})
	return yes
}

// Namespace is that of the class. Where a yes or no is enough, IsOwn lets classes of more
// namespaces share.
func (s *Scope) Namespace() string {
	s.IsOwn(s.class.Namespace)
	return s.class.Namespace
}

// IsExported reports whether the exports of a namespace include the class.
func (s *Scope) IsExported(to model.Exports, owner string) bool {
	if to.All || to.None {
		return !to.None
	}
	return to.Visible(owner, s.Namespace())
}

// Sidecar is the one in force, nil if none is.
func (s *Scope) Sidecar() *model.Sidecar {
	s.asked(question{kind: whichSidecar}, answer{is: s.sidecar})
	return s.sidecar
}

// Inbound are the ports of a sidecar's workload by number.
func (s *Scope) Inbound() *model.List[Inbound] {
	s.dependsOnPorts()
	s.asked(question{kind: whichInbound}, answer{is: s.class.Inbound})
	return s.class.Inbound
}

// PortConflicts are what services contest of the ports of a sidecar's workload, in their total
// order.
func (s *Scope) PortConflicts() *model.List[PortConflict] {
	s.dependsOnPorts()
	s.asked(question{kind: whichPortConflicts}, answer{is: s.class.PortConflicts})
	return s.class.PortConflicts
}

// PortServices are the services that lead to the ports of a sidecar's workload
// (Class.PortServices).
func (s *Scope) PortServices() *model.List[PortService] {
	s.dependsOnPorts()
	s.asked(question{kind: whichPortServices}, answer{is: s.class.PortServices})
	return s.class.PortServices
}

// AddressOf is where a gateway of the class takes the connections of a server.
func (s *Scope) AddressOf(server *model.GatewayServer) Address {
	s.classOnly()
	return s.class.addressOf(server)
}
