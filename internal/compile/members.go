package compile

import (
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// members are the connected proxies by namespace and name, so that a change finds those that may
// get another class. A proxy that reconnects may be there twice for a while.
type members struct {
	byNamespace map[string]map[string][]*Member
	count       int
}

func newMembers() *members { return &members{byNamespace: map[string]map[string][]*Member{}} }

func (ms *members) add(m *Member) {
	proxy := &m.known.Proxy
	named := ms.byNamespace[proxy.Namespace]
	if named == nil {
		named = map[string][]*Member{}
		ms.byNamespace[proxy.Namespace] = named
	}
	named[proxy.Name] = append(named[proxy.Name], m)
	ms.count++
}

// remove removes a member and reports whether it was there.
func (ms *members) remove(m *Member) bool {
	proxy := &m.known.Proxy
	named := ms.byNamespace[proxy.Namespace]
	same := named[proxy.Name]
	i := slices.Index(same, m)
	if i < 0 {
		return false
	}
	ms.count--
	if same = slices.Delete(same, i, i+1); len(same) > 0 {
		named[proxy.Name] = same
		return true
	}
	if delete(named, proxy.Name); len(named) == 0 {
		delete(ms.byNamespace, proxy.Namespace)
	}
	return true
}

func (ms *members) all() iter.Seq[*Member] {
	return func(yield func(*Member) bool) {
		for namespace := range ms.byNamespace {
			for m := range ms.in(namespace) {
				if !yield(m) {
					return
				}
			}
		}
	}
}

func (ms *members) in(namespace string) iter.Seq[*Member] {
	return func(yield func(*Member) bool) {
		for _, same := range ms.byNamespace[namespace] {
			for _, m := range same {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// touched returns the members whose class a delta may change. These are the changed workloads by
// name, and all in the namespace of a changed service that selects workloads or lists endpoints, of
// a changed WorkloadEntry, or of services to which a changed rule limits connections. If
// something changed that may match any workload, these are all members.
func (ms *members) touched(d *state.Delta, moves scope.Moves) map[*Member]bool {
	found := map[*Member]bool{}
	add := func(list iter.Seq[*Member]) {
		for m := range list {
			found[m] = true
		}
	}
	if moves.MayMoveAny() {
		add(ms.all())
		return found
	}
	for _, p := range d.Workloads {
		for _, w := range []*model.Workload{p.Old, p.New} {
			if w != nil {
				add(slices.Values(ms.byNamespace[w.Namespace][w.Name]))
			}
		}
	}
	for _, n := range d.Nodes {
		for pod := range d.To.WorkloadsOn(n.Either().Name) { // a pod that comes or leaves is a change of its own
			add(slices.Values(ms.byNamespace[pod.Namespace][pod.Name]))
		}
	}
	for _, p := range d.Services {
		for _, s := range []*model.Service{p.Old, p.New} {
			if s != nil && (!s.Selector.IsEmpty() || len(s.Endpoints) > 0) {
				add(ms.in(s.Namespace))
			}
		}
	}
	for _, e := range d.WorkloadEntries {
		add(ms.in(e.Either().Namespace))
	}
	for _, namespace := range moves.Pooled() {
		add(ms.in(namespace))
	}
	for _, namespace := range moves.Deployed() {
		add(ms.in(namespace))
	}
	return found
}
