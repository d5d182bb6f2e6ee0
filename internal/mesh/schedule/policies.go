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

// policyPatience is how long policies are held at most that leave an error.
const policyPatience = 100 * time.Millisecond

// policiesDue is when policies leave: at once. If all of them are removals, they wait for
// Debounce.Early: each may be half of a replacement, and its absence may open. Those that are held
// leave when their patience ends, and at once if the mesh configuration may have what they lack.
func (q *queues) policiesDue(now time.Time) time.Time {
	due := now.Add(idlePeriod)
	if q.held != nil && q.held.protects() {
		if due = q.policiesHeldUntil(q.held); q.pending.has(kinds.ConfigMap) {
			due = now
		}
	}
	switch {
	case q.policies.empty():
		return due
	case q.policies.hasUpsert():
		return earlier(due, q.policies.oldest)
	}
	return earlier(due, q.policies.oldest.Add(q.debounce.Early))
}

// policiesLeave is the decision when policies are due. Held configuration has been applied, so it
// leaves with them, and so does all that waits. The mesh configuration may have what they name, so
// that this leaves with them too.
func (q *queues) policiesLeave(now time.Time) decision {
	d := decision{leave: policiesOnly}
	if q.holdsConfiguration() || q.pending.has(kinds.ConfigMap) {
		d.leave = everything
	}
	if !q.policies.empty() {
		d.drainFirst = now.Sub(q.policies.oldest) < policyGather
	}
	return d
}

// takePolicies takes policies alone, with those that are held. One that leaves an error refuses
// what it matches, and what it lacks may come with the rest of its apply: a provider in the mesh
// configuration. So they are held for a while.
func (q *queues) takePolicies(now time.Time) (*batch, []source.Change) {
	b := q.held
	if b == nil {
		b = &batch{oldest: q.policies.oldest, policies: q.policies.oldest}
	}
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
func (q *queues) policiesHeldUntil(b *batch) time.Time {
	return b.policies.Add(min(policyPatience, q.debounce.After))
}
