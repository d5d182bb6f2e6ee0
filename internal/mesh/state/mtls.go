package state

import (
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// MTLS are the PeerAuthentications in force for a workload: the one that selects it, that of its
// namespace and that of the mesh. Each may be nil.
type MTLS struct{ Own, Namespace, Mesh *model.PeerAuthentication }

// MTLSOf returns the PeerAuthentications in force for the workloads of a namespace that these
// selectors match, and no others. The first in the total order counts on each level. The cost
// follows the selectors, not the policies of the namespace.
func (s *Snapshot) MTLSOf(namespace string, selectors iter.Seq[model.Labels]) MTLS {
	policies := s.peerAuthentications.by[peerAuthenticationsBySelector]
	if policies.len() == 0 {
		return MTLS{}
	}
	first := func(namespace string, selector model.Labels) *model.PeerAuthentication {
		p, _ := policies.first(join(namespace, selector.String()))
		return p
	}
	m := MTLS{Namespace: first(namespace, model.Labels{}), Mesh: first(s.Mesh.RootNamespace, model.Labels{})}
	for l := range selectors {
		if p := first(namespace, l); p != nil && (m.Own == nil || p.Compare(&m.Own.Meta) < 0) {
			m.Own = p
		}
	}
	return m
}

// MTLSFor returns the PeerAuthentications in force for workloads of a namespace with these labels.
func (s *Snapshot) MTLSFor(namespace string, labels model.Labels) MTLS {
	return s.MTLSOf(namespace, s.SelectorsOf(labels))
}

// Mode returns which calls to a port are accepted, and the policy that says so. Port 0 stands for
// the ports without a mode of their own. Without a policy it is MTLSPermissive.
func (m MTLS) Mode(port uint16) (model.MTLSMode, *model.PeerAuthentication) {
	if m.Own != nil {
		i := slices.IndexFunc(m.Own.Ports, func(p model.PortMTLS) bool { return p.Port == port })
		if i >= 0 && m.Own.Ports[i].Mode != model.MTLSUnset {
			return m.Own.Ports[i].Mode, m.Own
		}
	}
	for _, p := range []*model.PeerAuthentication{m.Own, m.Namespace, m.Mesh} {
		if p != nil && p.Mode != model.MTLSUnset {
			return p.Mode, p
		}
	}
	return model.MTLSPermissive, nil
}

// disablesMTLS reports whether a policy has the mode DISABLE, for some port at least.
func disablesMTLS(p *model.PeerAuthentication) bool {
	return p.Mode == model.MTLSDisable ||
		slices.ContainsFunc(p.Ports, func(p model.PortMTLS) bool { return p.Mode == model.MTLSDisable })
}

// disabledIn reports whether a policy of a namespace has the mode DISABLE.
func (s *Snapshot) disabledIn(namespace string) bool {
	_, any := s.peerAuthentications.by[peerAuthenticationsDisabling].first(join(namespace))
	return any
}

// mayDisable reports whether a policy for workloads of a namespace has the mode DISABLE. In a mesh
// without such a policy it makes no key to look one up by: every batch of endpoints asks.
func (s *Snapshot) mayDisable(namespace string) bool {
	return s.peerAuthentications.by[peerAuthenticationsDisabling].len() > 0 &&
		(s.disabledIn(namespace) || s.disabledIn(s.Mesh.RootNamespace))
}

// markTLS says of each endpoint whether callers use mutual TLS of the mesh: its workload takes it,
// and no PeerAuthentication has the mode DISABLE for its port.
func (c *contribution) markTLS(at *Snapshot) *contribution {
	namespace := c.service.namespace
	mayDisable := at.mayDisable(namespace)
	for i := range c.endpoints {
		e := &c.endpoints[i]
		mode, _ := e.Labels.Get(model.TLSModeLabel)
		e.TLS = mode == model.TLSModeIstio
		if e.TLS && mayDisable {
			is, _ := at.MTLSFor(namespace, e.Labels).Mode(e.Port)
			e.TLS = is != model.MTLSDisable
		}
	}
	return c
}

// namespaces are some namespaces, or all.
type namespaces struct {
	all  bool
	some []string
}

// mtlsChanged returns the namespaces in which changed PeerAuthentications may have changed how
// workloads are called. They do so by DISABLE alone: as long as no policy has it, there are none.
func (b *batch) mtlsChanged() namespaces {
	var in namespaces
	was, is := b.from.Mesh.RootNamespace, b.next.Mesh.RootNamespace
	ofMesh := was != is
	for _, p := range b.delta.PeerAuthentications {
		namespace := p.Either().Namespace
		if b.from.mayDisable(namespace) || b.next.mayDisable(namespace) {
			in.some = append(in.some, namespace)
		}
		ofMesh = ofMesh || namespace == is
	}
	in.all = ofMesh && (b.from.disabledIn(was) || b.next.disabledIn(is))
	slices.Sort(in.some)
	in.some = slices.Compact(in.some)
	return in
}

// isEmpty reports whether there are no namespaces.
func (n namespaces) isEmpty() bool { return !n.all && len(n.some) == 0 }

// workloads yields the workloads of the namespaces.
func (n namespaces) workloads(at *Snapshot) iter.Seq[*model.Workload] {
	return within(n, at.Workloads(), func(namespace string) iter.Seq[*model.Workload] {
		return podsIn(at.workloads, namespace)
	})
}

// services yields the services of the namespaces.
func (n namespaces) services(at *Snapshot) iter.Seq[*model.Service] {
	return within(n, at.Services(), at.ServicesIn)
}

// workloadEntries yields the WorkloadEntries of the namespaces.
func (n namespaces) workloadEntries(at *Snapshot) iter.Seq[*model.WorkloadEntry] {
	return within(n, at.workloadEntries.by[workloadEntriesByName].under(nil), at.workloadEntriesIn)
}

func within[T any](n namespaces, all iter.Seq[T], in func(namespace string) iter.Seq[T]) iter.Seq[T] {
	if n.all {
		return all
	}
	return func(yield func(T) bool) {
		for _, namespace := range n.some {
			for v := range in(namespace) {
				if !yield(v) {
					return
				}
			}
		}
	}
}

// otherMTLS reports whether other PeerAuthentications are in force for a workload than before.
func (b *batch) otherMTLS(namespace string, labels model.Labels) bool {
	return b.from.MTLSFor(namespace, labels) != b.next.MTLSFor(namespace, labels)
}

// retunedWorkloads returns unchanged workloads that may be called otherwise than before, because
// PeerAuthentications changed.
func (b *batch) retunedWorkloads(in namespaces) []*model.Workload {
	if in.isEmpty() {
		return nil
	}
	var found []*model.Workload
	for w := range in.workloads(b.next) {
		if b.from.Workload(w.Namespace, w.Name) == w && b.otherMTLS(w.Namespace, w.Labels) {
			found = append(found, w)
		}
	}
	return found
}

// joinRetuned replaces what unchanged ServiceEntries list and unchanged WorkloadEntries give, in
// namespaces where PeerAuthentications may have changed how they are called.
func (j *joiner) joinRetuned(in namespaces) {
	if in.isEmpty() {
		return
	}
	for svc := range in.services(j.after) {
		if len(svc.Endpoints) > 0 {
			j.swap(entryContribution(svc, j.before), entryContribution(svc, j.after))
		}
	}
	for e := range in.workloadEntries(j.after) {
		if j.b.otherMTLS(e.Namespace, e.Labels) {
			for _, c := range j.contributionsOf(e) {
				j.swap(c, c)
			}
		}
	}
}
