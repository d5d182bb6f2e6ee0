package schedule

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// A change of a policy may close what is open, so it waits for no quiet period and for no other
// change. The queues do not know whether it closes: without an ALLOW that another one stands
// beside, less is allowed too. Policies leave as a batch of their own, since half of what else
// waits may be worse than none of it.

// policyGather is for how long policies that arrive without a pause are gathered into one batch.
const policyGather = 20 * time.Millisecond

// isPolicy reports whether objects of a kind limit who is served.
func isPolicy(k kinds.Kind) bool { return kinds.Of(k).Protects }

// policiesDue is when policies leave: at once. If all of them are removals, they wait for
// Debounce.Early: each may be half of a replacement, and its absence may open.
func (q *queues) policiesDue(now time.Time) time.Time {
	switch {
	case q.policies.empty():
		return now.Add(idlePeriod)
	case q.policies.hasUpsert():
		return q.policies.oldest
	}
	return q.policies.oldest.Add(q.debounce.Early)
}

// policiesLeave is the decision when policies are due. A held batch has been applied, so it leaves
// with them, and so does all that waits. The mesh configuration may have what they name, so that
// this leaves with them too.
func (q *queues) policiesLeave(now time.Time) decision {
	d := decision{leave: policiesOnly, drainFirst: now.Sub(q.policies.oldest) < policyGather}
	if q.held != nil || q.pending.has(kinds.ConfigMap) {
		d.leave = everything
	}
	return d
}

// takePolicies takes policies alone. One that leaves an error refuses what it matches, and what it
// lacks may come with the rest of its apply: a provider in the mesh configuration. So they are held
// for the quiet period at most.
func (q *queues) takePolicies(now time.Time) (*batch, []source.Change) {
	b := &batch{oldest: q.policies.oldest, policies: q.policies.oldest}
	b.mayBeHeld = now.Before(q.policiesHeldUntil(b))
	return b, q.policies.take()
}

// joinPolicies notes that the policies that wait leave with a batch. They are not held for
// something else that is wrong with it.
func (q *queues) joinPolicies(b *batch, now time.Time) {
	switch {
	case b.protects():
		b.mayBeHeld = now.Before(q.policiesHeldUntil(b))
	case !q.policies.empty():
		b.mayBeHeld = false
	}
}

// policiesHeldUntil is until when a batch that began with policies is held at most.
func (q *queues) policiesHeldUntil(b *batch) time.Time { return b.policies.Add(q.debounce.After) }
