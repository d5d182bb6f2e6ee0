package state

import (
	"cmp"
	"iter"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// byName and byNode are the orders of the trees of workloads.
func byName(a, b *model.Workload) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func byNode(a, b *model.Workload) int { return cmp.Or(cmp.Compare(a.Node, b.Node), byName(a, b)) }

// podNamed is the place of a name among workloads.
func podNamed(namespace, name string) func(*model.Workload) int {
	return func(w *model.Workload) int {
		return cmp.Or(strings.Compare(w.Namespace, namespace), strings.Compare(w.Name, name))
	}
}

// Workloads yields all workloads by namespace and name.
func (s *Snapshot) Workloads() iter.Seq[*model.Workload] {
	return s.workloads.from(nil, func(*model.Workload) bool { return true })
}

// SlicesNaming yields the EndpointSlices that name a pod, ready or not.
func (s *Snapshot) SlicesNaming(namespace, pod string) iter.Seq[*model.EndpointSlice] {
	return s.slices.by[slicesByPod].under(join(namespace, pod))
}

// podsIn yields the workloads of a namespace by name.
func podsIn(workloads *btree[model.Workload], namespace string) iter.Seq[*model.Workload] {
	return workloads.from(podNamed(namespace, ""), func(w *model.Workload) bool { return w.Namespace == namespace })
}

// RunsAs reports whether a Pod that has not ended, or a WorkloadEntry, has a service account.
func (s *Snapshot) RunsAs(namespace, account string) bool {
	for w := range podsIn(s.workloads, namespace) {
		if w.ServiceAccount == account {
			return true
		}
	}
	for e := range s.workloadEntriesIn(namespace) {
		if e.Account == account {
			return true
		}
	}
	return false
}

// podsOn yields the workloads on a node by namespace and name.
func podsOn(byNode *btree[model.Workload], node string) iter.Seq[*model.Workload] {
	begin := func(w *model.Workload) int { return cmp.Or(strings.Compare(w.Node, node), 1) }
	return byNode.from(begin, func(w *model.Workload) bool { return w.Node == node })
}

// shareStrings returns a copy of a workload that shares equal strings with its neighbours: its
// former self, its replicas and pods of its node. Interning on read is not enough, because interned
// strings are dropped by garbage collection and replicas may start days apart.
func (b *batch) shareStrings(w *model.Workload) *model.Workload {
	one := *w
	share := func(before, after *model.Workload) {
		one.ReuseStrings(before)
		one.ReuseStrings(after)
	}
	share(b.next.workloads.around(podNamed(w.Namespace, w.Name)))
	share(b.next.podsByNode.around(func(o *model.Workload) int { return byNode(o, w) }))
	return &one
}
