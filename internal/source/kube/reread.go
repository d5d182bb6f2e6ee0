package kube

import (
	"context"
	"slices"
)

// reread lists the objects of a set anew that may name a revision, because other names stand for
// this one. What begins and what ceases to belong is delivered as one event, and nothing else,
// since all that stays has its fingerprint. Until the lists are there, what was delivered stays in
// force.
//
// A set that has not delivered its first lists yet begins anew. It returns the set that watches.
func (s *Source) reread(ctx context.Context, t *watchSet) *watchSet {
	if !t.listed() {
		t.stop()
		return s.start(ctx, t.namespace, t.served, t.resources)
	}
	t.stopRevisioned()
	if t.again != nil {
		t.again.stop()
		t.again = nil
	}
	named := slices.DeleteFunc(slices.Clone(t.resources), func(r *resource) bool { return !r.watch.Revisioned })
	if len(named) == 0 {
		return t
	}
	t.again = &watchSet{
		namespace: t.namespace,
		source:    s,
		resources: named,
		deliverMu: t.deliverMu,
		served:    t.served,
		initial:   !s.synced,
		pending:   len(named),
		done:      make(chan struct{}),
	}
	t.again.run(ctx)
	return t
}
