package session

import (
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// typeState is the state of one resource type of a stream.
type typeState struct {
	session *Session
	typ     resource.Type

	started     bool // the client has sent a request of this type
	responseDue bool // the client gets a response even if there is nothing to send
	replay      bool // state of the world: the next request is answered in full, even if it looks like an ACK (P11)
	// lastAcked is the number of the newest nonce with an ACK. No stream has more than 2^32
	// responses; four bytes fit here without padding.
	lastAcked uint32
	digest    *digest // state of the world: of the names of the last request

	set  *resource.Set // what the class has
	sub  subscription
	held holdings
	// nacks is what refusals left behind. It is written through ownNacks alone: types without
	// refusals share noNacks.
	nacks *nackState

	unanswered []*sentResponse // responses without ACK or NACK, oldest first; at most maxOutstanding

	// behindSince is the generation since which the client lacks something, or zero if it has been
	// sent everything.
	behindSince        uint64
	acceptedGeneration uint64 // the generation of the newest response with an ACK
	lastSent           uint64 // numbers of nonces
	sentAt             int64  // in nanoseconds of Unix time, 0 when nothing was sent
}

// nackState is what refusals left behind of one type.
type nackState struct {
	// quarantined are the versions that the client refused for good, by name. An entry goes when
	// the class has another version of the name, or none.
	quarantined map[string]resource.Version
	// retries are groups of names to send again, each group as a response of its own, to find out
	// which of them the client refuses.
	retries [][]string
	// noMixedTables is set when the client refused a table that was partly an older one
	// (withhold.go). For the rest of the stream it then gets tables as they are.
	noMixedTables bool
	// unconfirmed are resources of refused responses, until the next response that states
	// everything: what it says of them may be a change to the client, even if the session thinks
	// that the client has it.
	unconfirmed []*resource.Resource
	message     string // the client's words
}

// noNacks is the nackState of types without refusals, which nearly all are. Nothing writes to it.
var noNacks = &nackState{}

// ownNacks returns the type's own nackState, to write to.
func (ts *typeState) ownNacks() *nackState {
	if ts.nacks == noNacks {
		ts.nacks = &nackState{}
	}
	return ts.nacks
}

// trimNacks goes back to noNacks when refusals are over.
func (ts *typeState) trimNacks() {
	t := ts.nacks
	if t != noNacks && len(t.quarantined)+len(t.retries)+len(t.unconfirmed) == 0 && !t.noMixedTables &&
		t.message == "" {
		ts.nacks = noNacks
	}
}

// sentResponse is a response that the client has not answered yet.
type sentResponse struct {
	nonce       string
	number      uint64 // of the nonce
	version     string // Response.Version
	at          time.Time
	generation  uint64
	upserts     []*resource.Resource // by name; of a full state-of-the-world response only those that changed
	removed     []string
	hasRemovals bool // something was removed, by name or by its absence
	base        *resource.Set
	before      map[string]holding   // exceptions to base that upserts and removed replaced
	offered     []*resource.Resource // by name: what the client had not subscribed to, in any response of the batch
	unconfirmed []*resource.Resource // of nackState.unconfirmed, what this response states again
	isRetry     bool                 // it repeats something after a NACK
	isProbe     bool                 // see emission.probe
	overtaken   bool                 // it was on its way when one before it was refused
	mixedTable  bool                 // it has a table that is partly an older one
	isLEDS      bool                 // of upserts it has heads or members, not assignments
}

// contains reports whether the response has the name, as an upsert or as a removal.
func (r *sentResponse) contains(name string) bool {
	_, removed := slices.BinarySearch(r.removed, name)
	return removed || find(r.upserts, name) != nil
}

// setHeldBefore records what the client had under the name before the response.
func (r *sentResponse) setHeldBefore(name string, h holding) {
	if r.before == nil {
		r.before = map[string]holding{}
	}
	r.before[name] = h
}

// heldBefore returns what the client had under the name before the response.
func (r *sentResponse) heldBefore(name string, own *resource.Overlay) holding {
	if h, ok := r.before[name]; ok {
		h.certainty = known
		return h
	}
	if old := r.base.Get(name); old != nil {
		return holding{version: own.Version(old), resource: old}
	}
	return holding{}
}

// find looks a name up among resources that are sorted by name. It returns nil if there is none.
func find(sorted []*resource.Resource, name string) *resource.Resource {
	i, ok := slices.BinarySearchFunc(sorted, name, func(r *resource.Resource, n string) int {
		return strings.Compare(r.Name(), n)
	})
	if !ok {
		return nil
	}
	return sorted[i]
}

// decision is what to do about an exception.
type decision uint8

const (
	forget      decision = iota // it is no exception any more
	keep                        // nothing can be done now: quarantined, or waits for its retry
	send                        // send the resource
	remove                      // send a removal at once
	removeLater                 // send a removal, or an empty resource, last of all (order.go)
)

// decide compares what the client holds under a name with what it should hold. It returns the
// resource to send, if any.
func (ts *typeState) decide(name string, h holding) (decision, *resource.Resource) {
	if !ts.wants(name) {
		return ts.decideUnwanted(h), nil
	}
	if h.certainty == retrying {
		return keep, nil
	}
	r := ts.set.Get(name)
	switch {
	case r == nil:
		return ts.decideAbsent(name, h)
	case !ts.refuses(r):
		return ts.decideWanted(r, h)
	case h.version.IsZero(), h.certainty == answerDue && h.resource == nil && ts.emptyResource(name) != nil:
		// The class's version is refused, and the client has no older one to keep. Or there is no
		// older one to send again, and a cluster that never warms would stop everything.
		return ts.decideWithheld(name, h)
	case h.certainty == answerDue && h.resource != nil && h.version != ts.session.own.Version(r):
		return send, h.resource
	}
	return keep, nil
}

// decideWanted decides about a resource that is not quarantined.
func (ts *typeState) decideWanted(r *resource.Resource, h holding) (decision, *resource.Resource) {
	switch best := ts.substitute(r, h); {
	case best == nil:
		return ts.decideWithheld(r.Name(), h)
	case !h.is(ts.session.own.Version(best)):
		return send, best
	case best != r && best.Version() != r.Version():
		return keep, nil
	}
	return forget, nil
}

// decideWithheld decides about a resource that the client must not have, and has nothing older of.
func (ts *typeState) decideWithheld(name string, h holding) (decision, *resource.Resource) {
	v, stand := ts.decideAbsent(name, h)
	if v == forget {
		v = keep // the client lacks it, as it should, which the base does not say
	}
	return v, stand
}

// decideAbsent decides about a name for which there is nothing to send.
func (ts *typeState) decideAbsent(name string, h holding) (decision, *resource.Resource) {
	if stand := ts.emptyResource(name); stand != nil {
		switch {
		case h.is(stand.Version()):
			return forget, nil
		case h.certainty == answerDue && h.resource != nil && ts.typ == resource.Route && !ts.session.vhds:
			return send, h.resource // a listener that goes may still use it: repeat what the client has, empty it later
		case h.certainty == answerDue || h.isAbsent():
			return send, stand
		}
		return removeLater, stand
	}
	switch {
	case h.isAbsent(), ts.neverHad(name, h):
		return forget, nil
	case h.certainty == answerDue ||
		// Nothing refers to a listener or a name, so it waits for nothing.
		ts.typ == resource.Listener, ts.typ == resource.Name:
		return remove, nil
	case ts.typ == resource.VirtualHost && ts.session.hasTableOf(name): // virtual hosts of tables that go wait for them
		return remove, nil
	}
	return removeLater, nil
}

func (ts *typeState) refuses(r *resource.Resource) bool {
	v, ok := ts.nacks.quarantined[r.Name()]
	return ok && v == ts.session.own.Version(r)
}

// pending reports whether there is something to send now, and something to remove later. Call
// Session.pending, which skips idle types.
func (ts *typeState) pending() (due, removals bool) {
	if !ts.started {
		return false, false
	}
	due = ts.responseDue || len(ts.nacks.retries) > 0 || !ts.held.base.Equal(ts.set)
	for name, h := range ts.held.exceptions {
		switch v, _ := ts.decide(name, h); v {
		case send, remove:
			due = true
		case removeLater:
			removals = true
		}
	}
	return due, removals
}

// batch is what one comparison found to send.
type batch struct {
	change        *resource.Change     // set if all of its upserts are due
	upserts       []*resource.Resource // of change, by name
	extras        []*resource.Resource // in addition: answers, obligations, what was uncertain; by name
	removed       []string             // sorted
	offered       []*resource.Resource // of upserts and extras, what the client does not subscribe to yet; by name
	base          *resource.Set
	before        map[string]holding
	isRetry       bool
	mixedTable    bool
	renewedTables []string // tables whose head the client may not have had
}

func (b *batch) isEmpty() bool { return len(b.upserts)+len(b.extras)+len(b.removed) == 0 }

// recordReplaced records the exception that a response replaces, unless the base says the same.
func (ts *typeState) recordReplaced(b *batch, name string, h holding) {
	b.isRetry = b.isRetry || h.isUncertain()
	if ts.typ == resource.Route && ts.session.vhds && (h.certainty != known || h.version.IsZero()) {
		b.renewedTables = append(b.renewedTables, name)
	}
	if b.base.Len() == 0 && h.version.IsZero() && h.alternative.IsZero() {
		return
	}
	if b.before == nil {
		b.before = map[string]holding{}
	}
	b.before[name] = h
}

// compare brings the holdings to the class's set and returns what has to be sent for that. Removals
// that must wait stay behind as exceptions. offers are resources to send though the client does not
// subscribe to them, by name.
func (ts *typeState) compare(d *resource.Differ, offers []*resource.Resource) batch {
	b := batch{base: ts.held.base, offered: offers}
	if !ts.held.base.Equal(ts.set) {
		ts.moveBase(&b, d.Diff(ts.typ, ts.held.base, ts.set))
	}
	for _, r := range offers {
		if b.base.Get(r.Name()) != nil {
			ts.recordReplaced(&b, r.Name(), holding{}) // the base has it; the client did not want it, so it has not
		}
		if find(b.upserts, r.Name()) == nil {
			b.extras = append(b.extras, r)
		}
	}
	for _, name := range ts.held.exceptionNames() {
		ts.apply(&b, name)
	}
	slices.SortFunc(b.extras, byName)
	ts.removeDomainConflicts(&b)
	return b
}

// moveBase makes the change's target the base of the holdings.
func (ts *typeState) moveBase(b *batch, change *resource.Change) {
	for _, name := range change.Removed {
		if _, ok := ts.held.exceptions[name]; !ok && ts.wants(name) {
			old := change.From.Get(name)
			ts.held.set(name, holding{version: ts.session.own.Version(old), resource: old})
		}
	}
	b.upserts = ts.dueUpserts(b, change)
	if len(b.upserts) == len(change.Upserts) && len(b.upserts) > 0 {
		b.change = change
	}
	ts.held.base = change.To
}

// dueUpserts returns the change's upserts that must be sent. Mostly these are all, and then it
// returns the change's own list.
func (ts *typeState) dueUpserts(b *batch, change *resource.Change) []*resource.Resource {
	if len(ts.nacks.quarantined) == 0 && !ts.session.mayLackRefs() && ts.covers(change.To) &&
		!ts.held.mayConcern(change) {
		return change.Upserts
	}
	var out []*resource.Resource
	for i, r := range change.Upserts {
		isDue := ts.isDue(b, change, r)
		if out == nil && !isDue {
			out = append(make([]*resource.Resource, 0, len(change.Upserts)), change.Upserts[:i]...)
		} else if out != nil && isDue {
			out = append(out, r)
		}
	}
	if out == nil {
		return change.Upserts
	}
	return out
}

func (ts *typeState) isDue(b *batch, change *resource.Change, r *resource.Resource) bool {
	name := r.Name()
	if !ts.wants(name) {
		return find(b.offered, name) != nil
	}
	h, exception := ts.held.exceptions[name]
	if old := change.From.Get(name); !exception && old != nil {
		h = holding{version: ts.session.own.Version(old), resource: old}
	}
	if ts.refuses(r) || ts.substitute(r, h) != r {
		ts.held.set(name, h) // decide says what to do about it
		return false
	}
	if !exception {
		return true
	}
	if h.certainty == retrying {
		return false
	}
	if h.is(ts.session.own.Version(r)) {
		ts.held.reset(name)
		return false
	}
	ts.recordReplaced(b, name, h)
	ts.held.reset(name)
	return true
}

// apply does what decide says about an exception, as far as it may be done now.
func (ts *typeState) apply(b *batch, name string) {
	h := ts.held.exceptions[name]
	switch v, r := ts.decide(name, h); v {
	case forget:
		ts.held.reset(name)
	case send:
		ts.addUpsert(b, r, h)
	case remove:
		ts.addRemoval(b, name, h)
	case keep, removeLater:
	}
}

// addUpsert adds an upsert to the batch and makes it what the client holds.
func (ts *typeState) addUpsert(b *batch, r *resource.Resource, h holding) {
	name := r.Name()
	b.extras = append(b.extras, r)
	ts.recordReplaced(b, name, h)
	inSet := ts.set.Get(name)
	b.mixedTable = b.mixedTable || inSet != nil && inSet != r && r != h.resource
	if inSet == r || inSet == nil && r != h.resource { // as the base says, or the empty resource
		ts.held.reset(name)
		return
	}
	ts.held.set(name, holding{version: ts.session.own.Version(r), resource: r})
}

// addRemoval adds a removal to the batch. The client holds nothing from then on.
func (ts *typeState) addRemoval(b *batch, name string, h holding) {
	b.removed = append(b.removed, name)
	ts.recordReplaced(b, name, h)
	if ts.set.Get(name) == nil {
		ts.held.reset(name)
		return
	}
	ts.held.set(name, holding{})
}

// deferredRemovals returns the removals that compare left behind.
func (ts *typeState) deferredRemovals() batch {
	b := batch{base: ts.held.base}
	for _, name := range ts.held.exceptionNames() {
		h := ts.held.exceptions[name]
		switch v, stand := ts.decide(name, h); {
		case v != removeLater:
		case stand != nil:
			ts.addUpsert(&b, stand, h)
		default:
			ts.addRemoval(&b, name, h)
		}
	}
	return b
}

func byName(a, b *resource.Resource) int { return strings.Compare(a.Name(), b.Name()) }
