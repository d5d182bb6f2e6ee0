package state

import "github.com/lateen-mesh/lateen/internal/api/model"

// swapHosts keeps the hosts that some service has, each once.
func swapHosts(b *batch, old, now *model.Service) *model.Service {
	if now != nil {
		b.next.hosts.put(b.tx, reversed(now.Host), now.Host)
		return now
	}
	if _, claimed := b.next.services.by[servicesByHost].first(join(string(old.Host))); !claimed {
		b.next.hosts.drop(b.tx, reversed(old.Host))
	}
	return nil
}

func countSubsets(b *batch, old, now *model.DestinationRule) *model.DestinationRule {
	if old != nil {
		b.next.subsets -= len(old.Subsets)
		b.next.pools -= poolsOf(old)
	}
	if now != nil {
		b.next.subsets += len(now.Subsets)
		b.next.pools += poolsOf(now)
	}
	return now
}

// poolsOf is 1 for a rule that limits connections.
func poolsOf(r *model.DestinationRule) int {
	if r.HasPool() {
		return 1
	}
	return 0
}

// swapWorkload keeps workloads in two trees, whose order comes from the workloads: there are more
// of them than of anything else, and a tree has no keys to keep.
func swapWorkload(b *batch, old, now *model.Workload) *model.Workload {
	if now != nil {
		now = b.shareStrings(now)
	}
	s := b.next
	if old != nil {
		s.workloads = s.workloads.without(b.tx, podNamed(old.Namespace, old.Name))
		s.podsByNode = s.podsByNode.without(b.tx, func(w *model.Workload) int { return byNode(w, old) })
	}
	if now != nil {
		s.workloads = s.workloads.with(b.tx, now)
		if now.Node != "" {
			s.podsByNode = s.podsByNode.with(b.tx, now)
		}
	}
	return now
}

func swapSlice(b *batch, old, now *model.EndpointSlice) *model.EndpointSlice {
	b.dirtySlices = append(b.dirtySlices, Pair[model.EndpointSlice]{Old: old, New: now})
	return now
}

func (b *batch) swapMesh(now *model.MeshConfig) {
	if now == nil {
		now = b.next.defaults
	}
	if model.Equal(now, b.next.Mesh) {
		return // one that says what holds without it
	}
	b.next.Mesh = now
	b.delta.Mesh = true
}
