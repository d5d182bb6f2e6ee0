package session

import (
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// channel is one resource type of a stream.
type channel struct {
	session *Session // that it belongs to
	typ     resource.Type

	started bool // the client has sent a request of this type
	owed    bool // the client is due a response even if there is nothing to say
	replay  bool // state of the world: the next request is answered in full, even if it looks like an ACK (P11)
	// lastAcked is as lastSent. No stream has more than 32 bits of responses; it stands here because here is room for it.
	lastAcked uint32
	digest    *digest // state of the world: of the names of the last request

	set  *resource.Set // what the class has
	sub  subscription
	held holdings
	// trouble is what refusals left behind. It is written through troubled alone: channels without any share the same.
	trouble *trouble

	sent []*sent // responses without ACK or NACK, oldest first; see maxOutstanding

	// behind is the generation since when the client lacks something, zero when it has been sent everything.
	behind   uint64
	accepted uint64 // the generation of the newest response with an ACK
	lastSent uint64 // numbers of nonces
	sentAt   int64  // in nanoseconds of Unix time, 0 when nothing was sent
}

// trouble is what refusals left behind of one type.
type trouble struct {
	// refused are the versions that the client refused for good, by name: the quarantine. An entry goes when the class has
	// another version of the name, or none.
	refused map[string]resource.Version
	// retries are groups of names to send again, each group as a response of its own, to find out which of them the
	// client refuses.
	retries [][]string
	// unmixed is set when the client refused a response with a table that was partly an older one (withhold.go): then it gets
	// tables as they are, for the rest of the stream.
	unmixed bool
	// shaken are resources of refused responses, until the next response that states everything: what it says of them may
	// be a change to the client, even if the session thinks that the client has it.
	shaken []*resource.Resource
	nack   string // the client's words
}

// none is the trouble of a channel without any, which nearly all are; nothing writes to it.
var none = &trouble{}

// troubled is the channel's own trouble, to write to.
func (c *channel) troubled() *trouble {
	if c.trouble == none {
		c.trouble = &trouble{}
	}
	return c.trouble
}

// calm forgets trouble that is over.
func (c *channel) calm() {
	t := c.trouble
	if t != none && len(t.refused)+len(t.retries)+len(t.shaken) == 0 && !t.unmixed && t.nack == "" {
		c.trouble = none
	}
}

// sent is a response that the client has not answered yet.
type sent struct {
	nonce      string
	number     uint64 // of the nonce
	version    string // Response.Version
	at         time.Time
	generation uint64
	upserts    []*resource.Resource // by name; of a full state-of-the-world response only those that changed
	removed    []string
	shrinks    bool // something was removed, by name or by its absence
	from       *resource.Set
	before     map[string]holding   // exceptions to from that upserts and removed replaced
	offered    []*resource.Resource // by name: those that the client had not subscribed to, here or in parts of the same batch
	shaken     []*resource.Resource // of trouble.shaken, what this response was to settle
	retry      bool                 // it repeats something after a NACK
	sounding   bool                 // it is there to be answered, see rescue
	overtaken  bool                 // one before it was refused when this one was on its way already
	mixed      bool                 // it holds a table that is neither the class's nor an older one
	collected  bool                 // what it says of upserts is heads, or members of collections
}

// carries tells whether the response says anything about the name.
func (r *sent) carries(name string) bool {
	_, removed := slices.BinarySearch(r.removed, name)
	return removed || find(r.upserts, name) != nil
}

// remember notes what the client had under the name before the response.
func (r *sent) remember(name string, h holding) {
	if r.before == nil {
		r.before = map[string]holding{}
	}
	r.before[name] = h
}

// prior is what the client had under the name before the response.
func (r *sent) prior(name string, own *resource.Overlay) holding {
	if h, ok := r.before[name]; ok {
		h.doubt = sure
		return h
	}
	if old := r.from.Get(name); old != nil {
		return holding{version: own.Version(old), resource: old}
	}
	return holding{}
}

// find looks a name up among resources that are sorted by name.
func find(sorted []*resource.Resource, name string) *resource.Resource {
	i, ok := slices.BinarySearchFunc(sorted, name, func(r *resource.Resource, n string) int { return strings.Compare(r.Name(), n) })
	if !ok {
		return nil
	}
	return sorted[i]
}

// verdict is what is to be done about an exception.
type verdict uint8

const (
	forget verdict = iota // it is none any more
	keep                  // nothing can be done about it now: quarantined, or waits for its retry
	send                  // send the resource
	remove                // say at once that there is none
	later                 // removal, or emptying by the stand-in: last of all (order.go)
)

// judge compares what the client holds under a name with what it should hold.
func (c *channel) judge(name string, h holding) (verdict, *resource.Resource) {
	if !c.wants(name) {
		return c.judgeUnwanted(h), nil
	}
	if h.doubt == retrying {
		return keep, nil
	}
	r := c.set.Get(name)
	switch {
	case r == nil:
		return c.judgeAbsent(name, h)
	case !c.refuses(r):
		return c.judgeWanted(r, h)
	case h.version.IsZero(), h.doubt == asked && h.resource == nil && c.standIn(name) != nil:
		// Refused, and no older one is there to keep; or none to send again, and a cluster that never warms would in
		// the end stop everything.
		return c.judgeKeptOut(name, h)
	case h.doubt == asked && h.resource != nil && h.version != c.session.own.Version(r):
		return send, h.resource
	}
	return keep, nil
}

// judgeWanted is judge for a resource that the client would take.
func (c *channel) judgeWanted(r *resource.Resource, h holding) (verdict, *resource.Resource) {
	switch best := c.instead(r, h); {
	case best == nil:
		return c.judgeKeptOut(r.Name(), h)
	case !h.is(c.session.own.Version(best)):
		return send, best
	case best != r && best.Version() != r.Version():
		return keep, nil
	}
	return forget, nil
}

// judgeKeptOut is judge for a resource that the client is not to have, and has nothing older of.
func (c *channel) judgeKeptOut(name string, h holding) (verdict, *resource.Resource) {
	v, stand := c.judgeAbsent(name, h)
	if v == forget {
		v = keep // the client lacks it, as it should, but not as the base says
	}
	return v, stand
}

// judgeAbsent is judge for a name for which there is nothing to send.
func (c *channel) judgeAbsent(name string, h holding) (verdict, *resource.Resource) {
	if stand := c.standIn(name); stand != nil {
		switch {
		case h.is(stand.Version()):
			return forget, nil
		case h.doubt == asked && h.resource != nil && c.typ == resource.Route && !c.session.pieces:
			return send, h.resource // a listener that goes may still route by it: it is answered with what it has, and emptied later
		case h.doubt == asked || h.nothing():
			return send, stand
		}
		return later, stand
	}
	switch {
	case h.nothing(), c.neverHad(name, h):
		return forget, nil
	case h.doubt == asked || c.typ == resource.Listener: // what a listener refers to goes after it, it goes after nothing
		return remove, nil
	case c.typ == resource.VirtualHost && c.session.hasTableOf(name): // a table that goes does so as a whole
		return remove, nil
	}
	return later, nil
}

func (c *channel) refuses(r *resource.Resource) bool {
	v, ok := c.trouble.refused[r.Name()]
	return ok && v == c.session.own.Version(r)
}

// outlook tells whether there is something to send now, and something to remove later. Ask Session.outlook.
func (c *channel) outlook() (due, removals bool) {
	if !c.started {
		return false, false
	}
	due = c.owed || len(c.trouble.retries) > 0 || !c.held.base.Equal(c.set)
	for name, h := range c.held.except {
		switch v, _ := c.judge(name, h); v {
		case send, remove:
			due = true
		case later:
			removals = true
		}
	}
	return due, removals
}

// batch is what one comparison found to be due.
type batch struct {
	change  *resource.Change     // whose upserts are due as a whole; nil if none are, or not all
	upserts []*resource.Resource // of the difference between two sets, by name
	others  []*resource.Resource // besides: answers, obligations, what was unsure; by name
	removed []string             // sorted
	offered []*resource.Resource // of both, what the client does not subscribe to yet; by name
	from    *resource.Set
	before  map[string]holding
	retry   bool
	mixed   bool
	renewed []string // tables that the client may not have had
}

func (b *batch) empty() bool { return len(b.upserts)+len(b.others)+len(b.removed) == 0 }

// replaces remembers an exception that a response does away with, unless from says the same.
func (c *channel) replaces(b *batch, name string, h holding) {
	b.retry = b.retry || h.doubtful()
	if c.typ == resource.Route && c.session.pieces && (h.doubt != sure || h.version.IsZero()) {
		b.renewed = append(b.renewed, name)
	}
	if b.from.Len() == 0 && h.version.IsZero() && h.maybe.IsZero() {
		return
	}
	if b.before == nil {
		b.before = map[string]holding{}
	}
	b.before[name] = h
}

// compare brings the holdings to the class's set and returns what has to be sent for that. Removals that must wait stay
// behind as exceptions. Offers are resources to send though the client does not subscribe to them, by name.
func (c *channel) compare(d *resource.Differ, offers []*resource.Resource) batch {
	b := batch{from: c.held.base, offered: offers}
	if !c.held.base.Equal(c.set) {
		c.step(&b, d.Diff(c.typ, c.held.base, c.set))
	}
	for _, r := range offers {
		if b.from.Get(r.Name()) != nil {
			c.replaces(&b, r.Name(), holding{}) // the base has it, the client that did not want it has not
		}
		if find(b.upserts, r.Name()) == nil {
			b.others = append(b.others, r)
		}
	}
	for _, name := range c.held.names() {
		c.apply(&b, name)
	}
	slices.SortFunc(b.others, byName)
	c.makeWay(&b)
	return b
}

// step makes the change's target the base.
func (c *channel) step(b *batch, change *resource.Change) {
	for _, name := range change.Removed {
		if _, ok := c.held.except[name]; !ok && c.wants(name) {
			old := change.From.Get(name)
			c.held.note(name, holding{version: c.session.own.Version(old), resource: old})
		}
	}
	b.upserts = c.due(b, change)
	if len(b.upserts) == len(change.Upserts) && len(b.upserts) > 0 {
		b.change = change
	}
	c.held.base = change.To
}

// due are the change's upserts that must be sent: mostly all, and then the change's own list.
func (c *channel) due(b *batch, change *resource.Change) []*resource.Resource {
	if len(c.trouble.refused) == 0 && !c.session.short() && c.covers(change.To) && !c.held.differ(change) {
		return change.Upserts
	}
	var out []*resource.Resource
	for i, r := range change.Upserts {
		isDue := c.isDue(b, change, r)
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

func (c *channel) isDue(b *batch, change *resource.Change, r *resource.Resource) bool {
	name := r.Name()
	if !c.wants(name) {
		return find(b.offered, name) != nil
	}
	h, exception := c.held.except[name]
	if old := change.From.Get(name); !exception && old != nil {
		h = holding{version: c.session.own.Version(old), resource: old}
	}
	if c.refuses(r) || c.instead(r, h) != r {
		c.held.note(name, h) // what is to be done about it says judge
		return false
	}
	if !exception {
		return true
	}
	if h.doubt == retrying {
		return false
	}
	if h.is(c.session.own.Version(r)) {
		c.held.forget(name)
		return false
	}
	c.replaces(b, name, h)
	c.held.forget(name)
	return true
}

// apply does what judge says about an exception, as far as it may be done now.
func (c *channel) apply(b *batch, name string) {
	h := c.held.except[name]
	switch v, r := c.judge(name, h); v {
	case forget:
		c.held.forget(name)
	case send:
		c.carry(b, r, h)
	case remove:
		c.drop(b, name, h)
	case keep, later:
	}
}

// carry adds an upsert and makes it what the client holds.
func (c *channel) carry(b *batch, r *resource.Resource, h holding) {
	name := r.Name()
	b.others = append(b.others, r)
	c.replaces(b, name, h)
	inSet := c.set.Get(name)
	b.mixed = b.mixed || inSet != nil && inSet != r && r != h.resource
	if inSet == r || inSet == nil && r != h.resource { // as the base says, or its stand-in
		c.held.forget(name)
		return
	}
	c.held.note(name, holding{version: c.session.own.Version(r), resource: r})
}

// drop adds a removal and makes nothing what the client holds.
func (c *channel) drop(b *batch, name string, h holding) {
	b.removed = append(b.removed, name)
	c.replaces(b, name, h)
	if c.set.Get(name) == nil {
		c.held.forget(name)
		return
	}
	c.held.note(name, holding{})
}

// compareLater returns the removals that compare left behind.
func (c *channel) compareLater() batch {
	b := batch{from: c.held.base}
	for _, name := range c.held.names() {
		h := c.held.except[name]
		switch v, stand := c.judge(name, h); {
		case v != later:
		case stand != nil:
			c.carry(&b, stand, h)
		default:
			c.drop(&b, name, h)
		}
	}
	return b
}

func byName(a, b *resource.Resource) int { return strings.Compare(a.Name(), b.Name()) }
