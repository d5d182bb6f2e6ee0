package session

import (
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// handleAnswer takes a request's ACK or NACK of an outstanding response. It ignores a nonce that is
// not outstanding (P12). A state-of-the-world client repeats the nonce of the latest response in
// whatever it asks for later; any other such nonce has expired.
func (s *Session) handleAnswer(ts *typeState, req Request, now time.Time) {
	i := slices.IndexFunc(ts.unanswered, func(r *sentResponse) bool { return r.nonce == req.Nonce })
	if i < 0 {
		if req.Nonce != "" && req.Nonce != ts.nonce(ts.lastSent) {
			s.expiredNonces++
		}
		return
	}
	r, first := ts.unanswered[i], i
	if s.opt.Protocol == StateOfTheWorld && req.VersionInfo == r.version {
		req.Nack = nil // it accepted this response; it refused an earlier one, which this one replaced
	}
	unread := !ts.typ.Wildcard() && len(req.Names) == 0 // Envoy then only repeats the nonce
	if s.opt.Protocol == StateOfTheWorld && req.Nack == nil && req.VersionInfo != r.version && !unread {
		return // it says something else before it accepts or refuses the response
	}
	if s.opt.Protocol == StateOfTheWorld && req.Nack == nil {
		first = 0 // such a client may answer only the last response it read
	}
	ts.unanswered = slices.Delete(ts.unanswered, first, i+1)
	if len(ts.unanswered) == 0 {
		ts.unanswered = nil // a settled session is small
		s.awaitsAnswer.remove(ts.typ)
	}
	if req.Nack != nil {
		ts.ownNacks().message = req.Nack.Message
		if r.isLEDS {
			s.handleLEDSNack(r)
			return
		}
		if ts.typ == resource.VirtualHost {
			s.handleVirtualHostNack(ts, r, ts.unanswered[first:])
		} else {
			s.handleNack(ts, r, ts.unanswered[first:])
		}
		return
	}
	if ts.typ == resource.VirtualHost && (r.isRetry || r.hasRemovals) {
		ts.retryQuarantined(r)
	}
	ts.lastAcked = uint32(r.number)
	ts.acceptedGeneration = max(ts.acceptedGeneration, r.generation)
	if len(ts.nacks.quarantined) == 0 && len(ts.nacks.retries) == 0 && ts.nacks.message != "" &&
		!slices.ContainsFunc(ts.unanswered, func(r *sentResponse) bool { return r.isRetry }) {
		ts.ownNacks().message = ""
	}
	if ts.typ == resource.Filter && s.doubtsListeners {
		s.retryListeners(ts)
	}
	if r.isProbe && s.trustsEndpoints {
		s.handleProbeAnswer(r.number)
	}
	if ts.typ == resource.Listener && len(r.upserts) > 0 {
		s.routesAskedUntil = now.Add(s.opt.Hold)
	}
	if ts.typ == resource.Listener && s.replaces(r) {
		s.drainedAt = now.Add(s.opt.Drain)
	}
	s.opt.Scratch.reuse(r)
}

// retryListeners has the listeners sent again that the client refused, once no refused filter is
// its newest any more: it may have refused them for that filter (1.16). It does so once after each
// refusal of filters, so that a listener which is wrong itself is not sent for ever.
func (s *Session) retryListeners(filters *typeState) {
	if due, _ := filters.pending(); due || len(filters.unanswered) > 0 {
		return // what mends is yet to come
	}
	s.doubtsListeners = false
	ts := &s.types[resource.Listener]
	for _, name := range slices.Sorted(maps.Keys(ts.nacks.quarantined)) {
		if ts.wants(name) {
			ts.tryAgain(name, uncertain)
		} else {
			delete(ts.nacks.quarantined, name)
		}
	}
	ts.trimQuarantine()
	s.wake(resource.Listener)
}

// replaces reports whether a response for listeners changed or removed one that the client had.
func (s *Session) replaces(r *sentResponse) bool {
	return r.hasRemovals || slices.ContainsFunc(r.upserts, func(u *resource.Resource) bool {
		return !r.heldBefore(u.Name(), &s.own).version.IsZero()
	})
}

// handleNack takes a NACK. The client may have taken any part of the response. So of none of its
// names it is known what the client has. What certainly caused the refusal is quarantined. The rest
// is sent again, in smaller groups while the culprit is not known, until the culprit is alone. What
// a newer response contains as well is left to the answer to that one.
func (s *Session) handleNack(ts *typeState, r *sentResponse, newer []*sentResponse) {
	stands := func(name string) bool {
		return ts.wants(name) && !anyContains(newer, name)
	}
	if len(r.upserts) == 0 {
		return // nothing in it can be wrong, and it would be refused again
	}
	if ts.typ == resource.Filter {
		s.doubtsListeners = true
	}
	for _, name := range r.removed {
		if stands(name) {
			ts.setHolding(name, r.heldBefore(name, &ts.session.own), uncertain)
		}
	}
	ts.correctNewer(r, newer)
	if r.mixedTable {
		ts.ownNacks().noMixedTables = true
	}
	guilty, innocent, groups := findCulprits(ts.nacks.message, r.upserts)
	for _, u := range guilty {
		if stands(u.Name()) {
			ts.quarantine(u, r)
		}
	}
	for _, u := range innocent {
		if stands(u.Name()) {
			ts.markUncertain(u, r, uncertain)
		}
	}
	for _, group := range groups {
		var names []string
		for _, u := range group {
			if stands(u.Name()) && ts.markUncertain(u, r, retrying) {
				names = append(names, u.Name())
			}
		}
		if len(names) > 0 {
			ts.ownNacks().retries = append(ts.nacks.retries, names)
		}
	}
	if ts.typ == resource.Endpoint && s.trustsEndpoints {
		s.resendEndpoints() // Envoy ends all warming with this, so a missing ACK says nothing any more
	}
	if s.opt.Protocol == StateOfTheWorld && ts.typ.Wildcard() {
		ts.ownNacks().unconfirmed = slices.Concat(ts.nacks.unconfirmed, r.unconfirmed, r.upserts)
		ts.responseDue = len(ts.nacks.retries) == 0 && len(newer) == 0
	}
}

// correctNewer tells the newer responses what the client had before the refused one, where they
// assume that it has that. If all of them have only the head or members of a name, the client has
// these on top of what it had. It then needs a list, which also shows what it refuses.
func (ts *typeState) correctNewer(r *sentResponse, newer []*sentResponse) {
	for _, u := range r.upserts {
		i := slices.IndexFunc(newer, func(n *sentResponse) bool { return n.contains(u.Name()) })
		if i < 0 {
			continue
		}
		newer[i].isRetry = true
		if newer[i].heldBefore(u.Name(), &ts.session.own).version == ts.session.own.Version(u) {
			newer[i].setHeldBefore(
				u.Name(),
				r.heldBefore(u.Name(), &ts.session.own).orVersion(ts.session.own.Version(u)),
			)
		}
		if ts.wants(u.Name()) && !anyInFull(newer, u.Name()) {
			ts.setHolding(u.Name(), r.heldBefore(u.Name(), &ts.session.own).orVersion(anyVersion), uncertain)
		}
	}
}

// quarantine keeps the version from this client until the class has another one. The client keeps
// what it had before; a partial NACK leaves that in use.
func (ts *typeState) quarantine(u *resource.Resource, r *sentResponse) {
	name, version, h := u.Name(), ts.session.own.Version(u), r.heldBefore(u.Name(), &ts.session.own)
	if h.version == version { // sent before, and not accepted then either
		h = holding{alternative: anyVersion}
	}
	// Of endpoints that it reported and that cannot be sent again, a new form of the cluster may
	// have none.
	certain := ts.typ != resource.Endpoint && (h.alternative.IsZero() || h.alternative == version)
	current := ts.set.Get(name)
	switch {
	case current == nil && ts.isEmptyResource(u):
		ts.held.reset(name) // there is nothing else to try
		return
	case current == nil || ts.session.own.Version(current) != version:
		ts.setHolding(name, h, uncertain)
		return
	case ts.typ == resource.Filter && (h.resource != nil || h.version.IsZero()):
		// Envoy goes on with the old filter or the default, and yet takes the refused one for its
		// newest: it would refuse listeners that name it, and accept the same when it comes again
		// (1.16). The old one mends that, and so does a removal.
		ts.setHolding(name, h, answerDue)
	case ts.typ == resource.Endpoint && (h.resource != nil || h.version.IsZero()):
		ts.setHolding(name, h, answerDue) // they may have been for a cluster that warms again, which now has none
	case certain:
		h.alternative = resource.Version{}
		ts.setHolding(name, h, known)
	default:
		ts.setHolding(name, h, uncertain)
	}
	t := ts.ownNacks()
	if t.quarantined == nil {
		t.quarantined = map[string]resource.Version{}
	}
	t.quarantined[name] = version
}

// markUncertain records that the client may have taken the resource or not. It reports whether the
// resource may be sent again with its group; what has changed since goes its normal way.
func (ts *typeState) markUncertain(u *resource.Resource, r *sentResponse, d certainty) bool {
	name := u.Name()
	h := r.heldBefore(name, &ts.session.own).orVersion(ts.session.own.Version(u))
	current := ts.set.Get(name)
	if current != nil && ts.session.own.Version(current) == ts.session.own.Version(u) {
		ts.setHolding(name, h, d)
		return true
	}
	switch {
	case current != nil || !ts.isEmptyResource(u):
		ts.setHolding(name, h, uncertain)
	case r.isRetry:
		ts.held.reset(name)
	default:
		ts.setHolding(name, h, answerDue)
	}
	return false
}

// setHolding records what the client had before a response, and how far that is still known.
func (ts *typeState) setHolding(name string, h holding, d certainty) {
	h.certainty = d
	ts.held.set(name, h)
}

// anyContains reports whether one of the responses has the name.
func anyContains(by []*sentResponse, name string) bool {
	return slices.ContainsFunc(by, func(r *sentResponse) bool { return r.contains(name) })
}

// anyInFull reports whether one of the responses says what the client is to have of the name,
// whatever it had before.
func anyInFull(by []*sentResponse, name string) bool {
	return slices.ContainsFunc(by, func(r *sentResponse) bool { return !r.isLEDS && r.contains(name) })
}

// isEmptyResource reports whether u is the empty resource of its name.
func (ts *typeState) isEmptyResource(u *resource.Resource) bool {
	stand := ts.emptyResource(u.Name())
	return stand != nil && stand.Version() == u.Version()
}

// retry returns the next group of names that are sent again by themselves.
func (ts *typeState) retry() batch {
	t := ts.ownNacks()
	group := t.retries[0]
	t.retries = t.retries[1:]
	if len(t.retries) == 0 {
		t.retries = nil
	}
	b := batch{base: ts.held.base, isRetry: true}
	for _, name := range group {
		if h := ts.held.exceptions[name]; h.certainty == retrying {
			h.certainty = uncertain
			ts.held.set(name, h)
			ts.apply(&b, name)
		}
	}
	slices.SortFunc(b.extras, byName)
	return b
}
