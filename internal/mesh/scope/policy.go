package scope

import (
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// Refuses reports whether the PeerAuthentication in force refuses calls in plaintext to a port of
// the class's workloads.
func (s *Scope) Refuses(port uint16) bool {
	refuses := s.mtlsMode(port) == model.MTLSStrict
	s.asked(question{kind: whetherRefuses, port: port}, answer{yes: refuses})
	return refuses
}

// MTLSMode returns which calls to a port of the class's workloads the PeerAuthentication in force
// accepts; MTLSPermissive where there is none. Port 0 stands for the ports without a mode of their
// own. A gateway's servers say themselves what they accept.
func (s *Scope) MTLSMode(port uint16) model.MTLSMode {
	mode := s.mtlsMode(port)
	s.asked(question{kind: whichMTLSMode, port: port}, answer{is: mode})
	return mode
}

// MTLSPolicy returns the PeerAuthentication that says which calls to a port are accepted, nil if
// none does.
func (s *Scope) MTLSPolicy(port uint16) *model.PeerAuthentication {
	_, policy := s.mtls().Mode(port)
	s.asked(question{kind: whichMTLSPolicy, port: port}, answer{is: policy})
	return policy
}

// PortsWithMTLS returns the ports that have a mode of their own in the PeerAuthentication that
// selects the class's workloads.
func (s *Scope) PortsWithMTLS() []model.PortMTLS {
	own := s.mtls().Own
	s.asked(question{kind: whichPeerAuthentication}, answer{is: own})
	if own == nil {
		return nil
	}
	return own.Ports
}

// HasAuthorizationPolicy reports whether an AuthorizationPolicy is for the class.
func (s *Scope) HasAuthorizationPolicy(p *model.AuthorizationPolicy) bool {
	return s.hasPolicy(p.Namespace, &p.Selection)
}

// HasPeerAuthentication reports whether a PeerAuthentication is for the class.
func (s *Scope) HasPeerAuthentication(p *model.PeerAuthentication) bool {
	return s.hasPolicy(p.Namespace, &model.Selection{Selector: p.Selector})
}

// HasRequestAuthentication reports whether a RequestAuthentication is for the class.
func (s *Scope) HasRequestAuthentication(a *model.RequestAuthentication) bool {
	return s.hasPolicy(a.Namespace, &a.Selection)
}

// UsesKeySet reports whether a RequestAuthentication of the class has its keys from a set.
func (s *Scope) UsesKeySet(k *model.KeySet) bool {
	for a := range s.snapshot.RequestAuthenticationsWith(k.URI) {
		if s.HasRequestAuthentication(a) {
			return true
		}
	}
	return false
}

// hasPolicy reports whether a policy of a namespace is for the class. Policies of the root
// namespace are for the whole mesh.
func (s *Scope) hasPolicy(namespace string, selection *model.Selection) bool {
	own := s.IsOwn(namespace)
	return (own || namespace == s.snapshot.Mesh.RootNamespace) && selection.IsFor(own, s.Selected)
}

// AuthorizationPolicies returns the ones of the class: of the root namespace first, then of its
// own, each in the total order.
func (s *Scope) AuthorizationPolicies() []*model.AuthorizationPolicy {
	found := s.authorizationPolicies()
	s.asked(question{kind: whichAuthorizationPolicies}, answer{is: chained(found)})
	return found
}

func (s *Scope) authorizationPolicies() []*model.AuthorizationPolicy {
	if !s.snapshot.HasAuthorizationPolicies() {
		return nil
	}
	return policiesOf(
		s, s.snapshot.AuthorizationPoliciesFor,
		func(p *model.AuthorizationPolicy) (*model.Selection, *model.Meta) { return &p.Selection, &p.Meta },
	)
}

// policiesOf returns the policies of one kind that are for the class: of the root namespace first,
// then of its own, each in the total order. It looks up those with a selector that matches, so the
// cost follows what it finds.
func policiesOf[T any](
	s *Scope, under func(string, model.Labels) iter.Seq[*T], parts func(*T) (*model.Selection, *model.Meta),
) []*T {
	var found []*T
	for _, namespace := range s.policyNamespaces() {
		from := len(found)
		add := func(selector model.Labels) {
			for p := range under(namespace, selector) {
				selection, _ := parts(p)
				if len(selection.Gateways) == 0 || namespace == s.class.Namespace {
					found = append(found, p)
				}
			}
		}
		add(model.Labels{})
		for selector := range s.class.Selectors.All() {
			add(selector)
		}
		slices.SortFunc(found[from:], func(a, b *T) int {
			_, one := parts(a)
			_, other := parts(b)
			return one.Compare(other)
		})
	}
	return slices.Compact(found)
}

// RequestAuthentications returns the ones of the class: of the root namespace first, then of its
// own, each in the total order.
func (s *Scope) RequestAuthentications() []*model.RequestAuthentication {
	found := s.requestAuthentications()
	s.asked(question{kind: whichRequestAuthentications}, answer{is: chained(found)})
	return found
}

func (s *Scope) requestAuthentications() []*model.RequestAuthentication {
	if !s.snapshot.HasRequestAuthentications() {
		return nil
	}
	return policiesOf(
		s, s.snapshot.RequestAuthenticationsFor,
		func(a *model.RequestAuthentication) (*model.Selection, *model.Meta) { return &a.Selection, &a.Meta },
	)
}

// chain is a list that compares with ==: its last policy, and the chain of those before.
type chain[T any] struct {
	last *T
	rest any
}

func chained[T any](list []*T) any {
	var c any
	for _, p := range list {
		c = chain[T]{p, c}
	}
	return c
}

func (s *Scope) policyNamespaces() []string {
	return slices.Compact([]string{s.snapshot.Mesh.RootNamespace, s.class.Namespace})
}

// mtlsMode returns the mode of the PeerAuthentication in force.
func (s *Scope) mtlsMode(port uint16) model.MTLSMode {
	if s.class.Type != Sidecar {
		return model.MTLSPermissive
	}
	mode, _ := s.mtls().Mode(port)
	return mode
}

func (s *Scope) mtls() state.MTLS {
	return s.snapshot.MTLSOf(s.class.Namespace, s.class.Selectors.All())
}
