package scope

import (
	"cmp"
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// Scope is what one class sees of one snapshot. It is a view: making one costs next to nothing.
//
// Only Scope reads its snapshot and its class, because compiled units are shared between classes
// (read.go). Each method is one of three, which TestEveryMethodIsOneOfThree holds to:
//
//	same      depends on the snapshot alone: the same for every class (snapshot.go)
//	alike     depends on the class by its SharingKey alone, which classes that share have in common
//	recorded  depends on more of the class: Reads takes down the question and its answer, or
//	          that the answer is for this class only
type Scope struct {
	snapshot *state.Snapshot
	class    *Class
	sidecar  *model.Sidecar // in force; nil if none is
	// Evaluations, unless it is nil, counts how often it was evaluated whether the class sees
	// something. Tests alone set it: that a change evaluates as little in a large mesh as in a
	// small one shows in a count, and not in a duration. All others pay for a comparison with nil.
	Evaluations *uint64
	// Cache, unless it is nil, remembers what the snapshot says.
	Cache *LookupCache
	// Reads, unless it is nil, takes down what the scope is asked and what it answers.
	Reads *ReadSet
	// servers are those of the class's Gateways by address; nil before the first question.
	servers map[Address][]GatewayServer
	// tlsHosts are what TLSHostsOn has answered by address.
	tlsHosts map[Address]*TLSHosts
}

func (s *Scope) evaluated() {
	if s.Evaluations != nil {
		*s.Evaluations++
	}
}

// New looks at a snapshot as a class does.
func New(snap *state.Snapshot, c *Class) *Scope {
	return &Scope{snapshot: snap, class: c, sidecar: sidecarFor(snap, c)}
}

// MoveTo takes the scope to another snapshot in which the same Sidecar is in force.
func (s *Scope) MoveTo(snap *state.Snapshot) {
	if !s.snapshot.HasGatewaysOf(snap) {
		s.servers, s.tlsHosts = nil, nil
	}
	s.snapshot = snap
}

// sidecarFor returns the Sidecar in force: one that selects the workload, then the namespace's,
// then the root namespace's.
func sidecarFor(snap *state.Snapshot, c *Class) *model.Sidecar {
	if c.Type != Sidecar {
		return nil
	}
	var wide *model.Sidecar
	for s := range snap.Sidecars(c.Namespace) {
		switch {
		case s.Selector.IsEmpty():
			if wide == nil {
				wide = s
			}
		case c.Selected(s.Selector):
			return s
		}
	}
	if wide != nil {
		return wide
	}
	for s := range snap.Sidecars(snap.Mesh.RootNamespace) {
		if s.Selector.IsEmpty() {
			return s
		}
	}
	return nil
}

// Service returns the service that the class calls by a host: a visible claimant, of the class's
// own namespace before others; nil if there is none.
func (s *Scope) Service(host model.Host) *model.Service {
	found := s.serviceOf(host)
	s.asked(question{kind: whichService, name: string(host)}, answer{is: found})
	return found
}

// firstWhere returns the first of a list that matches, nil if none does.
func firstWhere[T any](list iter.Seq[*T], so func(*T) bool) *T {
	for t := range list {
		if so(t) {
			return t
		}
	}
	return nil
}

func (s *Scope) sees(svc *model.Service) bool {
	s.evaluated()
	if !svc.ExportTo.Visible(svc.Namespace, s.class.Namespace) || svc.OwnMachine && s.class.Type == Router {
		return false
	}
	if s.routesOnly() {
		return s.routed(svc.Host) || s.isProvider(svc.Host) || s.isCalledByFilter(svc.Host)
	}
	return s.egress(svc.Namespace, svc.Host) || s.routed(svc.Host)
}

// routesOnly reports whether the class sees only services that its routes lead to
// (PILOT_FILTER_GATEWAY_CLUSTER_CONFIG).
func (s *Scope) routesOnly() bool { return s.class.Type == Router && !s.class.Settings.AllClusters }

// routed reports whether a route of the class leads to a host, or to another name of it. Such a
// destination is visible even if no Sidecar lists it.
func (s *Scope) routed(host model.Host) bool { return s.routedBy(host, 0) }

// routedBy is routed for a host that stands behind some other names.
func (s *Scope) routedBy(host model.Host, names int) bool {
	for v := range s.snapshot.VirtualServicesTo(host) {
		if s.hasRoutes(v) {
			return true
		}
	}
	if names == model.MaxAliases || !s.snapshot.HasAliases() {
		return false
	}
	for alias := range s.snapshot.AliasesOf(host) {
		if alias.ExportTo.Visible(alias.Namespace, s.class.Namespace) && s.routedBy(alias.Host, names+1) {
			return true
		}
	}
	return false
}

// isProvider reports whether proxies call a host on their own. Gateways see it although no route
// leads there.
func (s *Scope) isProvider(host model.Host) bool {
	for h := range s.snapshot.Mesh.ProviderHosts() {
		if h == host {
			return true
		}
	}
	return false
}

// hasRoutes reports whether the class has the routes of a VirtualService.
func (s *Scope) hasRoutes(v *model.VirtualService) bool {
	s.evaluated()
	if !v.ExportTo.Visible(v.Namespace, s.class.Namespace) {
		return false
	}
	if s.class.Type == Router {
		return slices.ContainsFunc(v.Gateways, s.servesGateway)
	}
	if !slices.Contains(v.Gateways, model.Mesh) {
		return false
	}
	return slices.ContainsFunc(v.Hosts, func(h model.Host) bool { return s.egressRoutes(v.Namespace, h) })
}

// servesGateway reports whether the gateway of a "namespace/name" selects the class.
func (s *Scope) servesGateway(name string) bool {
	g := s.snapshot.Gateway(name)
	return g != nil && s.Applies(g)
}

// Gateways yields the Gateways that select the class, in the total order.
func (s *Scope) Gateways() iter.Seq[*model.Gateway] {
	return func(yield func(*model.Gateway) bool) {
		if s.class.Type != Router {
			return
		}
		for g := range s.snapshot.Gateways() {
			if !s.Applies(g) {
				continue
			}
			if !yield(g) {
				return
			}
		}
	}
}

// Applies reports whether a Gateway selects the class.
func (s *Scope) Applies(g *model.Gateway) bool {
	s.evaluated()
	if s.class.Type != Router || g.Workloads != "" && g.Workloads != s.class.Namespace {
		return false
	}
	if s.class.Settings.OwnGateways && g.Kind == kinds.Gateway && g.Namespace != s.class.Namespace {
		return false
	}
	return s.Selected(g.Selector) || !g.AlsoSelector.IsEmpty() && s.Selected(g.AlsoSelector)
}

// DestinationRule returns the one in force for a service: of the class's own namespace, then the
// service's, then the root namespace. Within a namespace the most specific host comes first, then a
// rule that selects the workload. Proxies in the root namespace, such as gateways, do not prefer
// what it exports to the whole mesh.
func (s *Scope) DestinationRule(svc *model.Service) *model.DestinationRule {
	found := s.ruleFor(svc)
	s.asked(question{kind: whichRule, service: svc}, answer{is: found})
	return found
}

func (s *Scope) ruleFor(svc *model.Service) *model.DestinationRule {
	rules := s.rulesFor(svc.Host)
	if len(rules) == 0 {
		return nil
	}
	own, root := s.class.Namespace, s.snapshot.Mesh.RootNamespace
	if r := s.ruleIn(own, rules, own == root); r != nil {
		return r
	}
	for _, namespace := range [...]string{svc.Namespace, root} {
		if r := s.ruleIn(namespace, rules, false); r != nil {
			return r
		}
	}
	return nil
}

// ruleIn returns the rule of a namespace, from rules grouped by pattern. With private it considers
// only rules that are not exported. Rules for the same host and workloads are merged.
func (s *Scope) ruleIn(namespace string, byPattern [][]*model.DestinationRule, private bool) *model.DestinationRule {
	for _, rules := range byPattern {
		var forAll, forSome [2]*model.DestinationRule // mostly there is one
		general, selecting := forAll[:0], forSome[:0]
		for _, r := range rules {
			s.evaluated()
			switch {
			case r.Namespace != namespace || !r.ExportTo.Visible(r.Namespace, s.class.Namespace) || private &&
				!isPrivate(r):
			case r.Selector.IsEmpty():
				general = append(general, r)
			case namespace != s.class.Namespace || !s.class.Selected(r.Selector):
			case len(selecting) == 0 || selecting[0].Selector == r.Selector:
				selecting = append(selecting, r)
			}
		}
		if r := cmp.Or(model.MergeRules(selecting), model.MergeRules(general)); r != nil {
			return r
		}
	}
	return nil
}

// isPrivate reports whether a rule is for its own namespace only. A rule that selects workloads
// always is.
func isPrivate(r *model.DestinationRule) bool {
	e := r.ExportTo
	if !r.Selector.IsEmpty() {
		return true
	}
	return !e.All && !slices.ContainsFunc(e.Namespaces, func(n string) bool { return n != r.Namespace })
}

// Hosts yields each host that the class may need once: those of visible services and of its routes.
// It is for compiling a class without a base.
func (s *Scope) Hosts() iter.Seq[model.Host] {
	s.classOnly()
	return func(yield func(model.Host) bool) {
		seen := map[model.Host]bool{}
		once := func(h model.Host) bool {
			if seen[h] {
				return true
			}
			seen[h] = true
			return yield(h)
		}
		for svc := range s.candidates() {
			if !once(svc.Host) {
				return
			}
		}
		for h := range s.snapshot.Mesh.ProviderHosts() {
			if s.routesOnly() && !once(h) {
				return
			}
		}
		for _, f := range s.filtersThatCall() {
			if slices.ContainsFunc(f.Calls, func(h model.Host) bool { return !once(h) }) {
				return
			}
		}
		for h := range s.forwardedHosts() {
			if !once(h) {
				return
			}
		}
		for v := range s.snapshot.VirtualServices() {
			if !s.hasRoutes(v) {
				continue
			}
			for _, h := range v.Hosts {
				if !once(h) {
					return
				}
			}
			for _, h := range state.DestinationHosts(v) {
				for host := range s.snapshot.HostsBehind(h) {
					if !once(host) {
						return
					}
				}
			}
		}
	}
}

// candidates yields the services that the Sidecar may import, narrowed to namespaces if it names
// them.
func (s *Scope) candidates() iter.Seq[*model.Service] {
	if s.routesOnly() {
		return func(func(*model.Service) bool) {}
	}
	namespaces, all := s.egressNamespaces()
	if all {
		return s.snapshot.Services()
	}
	return func(yield func(*model.Service) bool) {
		for _, n := range namespaces {
			for svc := range s.snapshot.ServicesIn(n) {
				if !yield(svc) {
					return
				}
			}
		}
	}
}

func (s *Scope) egressNamespaces() (namespaces []string, all bool) {
	listeners, all := s.Egress()
	if all {
		return nil, true
	}
	for _, l := range listeners {
		for _, h := range l.Hosts {
			if h.Namespace == "*" {
				return nil, true
			}
			namespaces = append(namespaces, h.Namespace)
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), false
}
