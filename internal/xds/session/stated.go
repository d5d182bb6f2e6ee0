package session

import (
	"iter"
	"maps"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Lists are the names and versions that a request states, as they are on the wire. What is yielded is valid until the next.
type Lists interface {
	// Lengths are how many names and versions there are.
	Lengths() (subscribed, reported int)
	Subscribed() iter.Seq[[]byte]
	Reported() iter.Seq2[[]byte, []byte]
}

// subscribed are the names in delta's resource_names_subscribe, wherever they stand.
func (r *Request) subscribed() iter.Seq[[]byte] {
	if r.Lists != nil {
		return r.Lists.Subscribed()
	}
	return func(yield func([]byte) bool) {
		for _, name := range r.Subscribe {
			if !yield([]byte(name)) {
				return
			}
		}
	}
}

// reported are the entries of initial_resource_versions, wherever they stand. On the wire a name may stand twice; the last counts.
func (r *Request) reported() iter.Seq2[[]byte, []byte] {
	if r.Lists != nil {
		return r.Lists.Reported()
	}
	return func(yield func(_, _ []byte) bool) {
		for name, version := range r.InitialVersions {
			if !yield([]byte(name), []byte(version)) {
				return
			}
		}
	}
}

// subscribes tells whether the request subscribes to any name.
func (r *Request) subscribes() bool {
	if r.Lists != nil {
		n, _ := r.Lists.Lengths()
		return n > 0
	}
	return len(r.Subscribe) > 0
}

// reports tells whether the request says what the client has.
func (r *Request) reports() bool {
	if r.Lists != nil {
		_, n := r.Lists.Lengths()
		return n > 0
	}
	return len(r.InitialVersions) > 0
}

// unfolded is the request with Subscribe and InitialVersions in place of Lists. Most requests have none, and are not to be moved to
// the heap for those that have.
func (r Request) unfolded() Request {
	if r.Lists == nil {
		return r
	}
	return unfold(r)
}

func unfold(r Request) Request {
	for name := range r.Lists.Subscribed() {
		r.Subscribe = append(r.Subscribe, string(name))
	}
	for name, version := range r.Lists.Reported() {
		if r.InitialVersions == nil {
			r.InitialVersions = map[string]string{}
		}
		r.InitialVersions[string(name)] = string(version)
	}
	r.Lists = nil
	return r
}

// stated is what a stream's first request of a type says, beside what the class has. A client that comes back says all that it has,
// which mostly is all that its class has; one that comes for the first time asks for the endpoints of all clusters that it has
// just been sent. Both cost the session a look at each name, and what it keeps is the difference.
//
// Nothing depends on the client's word but what that client is sent.
type stated struct {
	channel *channel
	index   *resource.Index
	sub     subscription
	have    marks             // places of resources that the client reports at their version
	other   map[string]string // what else it reports to have
	reports bool
}

// marks are a set of places.
type marks struct {
	bits  []uint64
	count int
}

func newMarks(places int) marks { return marks{bits: make([]uint64, (places+63)/64)} }

func (m *marks) has(place int) bool { return m.bits[place/64]&(1<<(place%64)) != 0 }

func (m *marks) add(place int) {
	if !m.has(place) {
		m.bits[place/64] |= 1 << (place % 64)
		m.count++
	}
}

func (m *marks) remove(place int) {
	if m.has(place) {
		m.bits[place/64] &^= 1 << (place % 64)
		m.count--
	}
}

// openAt takes a stream's first request of a type, if most of what it says is what the class has; else it does nothing and
// tells so. It comes to the same as openBy.
func (s *Session) openAt(c *channel, req *Request) bool {
	if !s.comparable(c, req) {
		return false
	}
	st := stated{channel: c, index: s.opt.Differ.Index(c.set)}
	if !st.readNames(req) {
		return false
	}
	wanted := c.sub
	c.sub = st.sub
	st.readVersions(req)
	if st.reports && 2*st.have.count < st.index.Len() {
		c.sub = wanted
		return false
	}
	st.settle()
	return true
}

// comparable tells whether openAt can do it: routes and secrets, of which there are few, may have to wait for others, and then the
// names that are asked for must be remembered one by one.
func (s *Session) comparable(c *channel, req *Request) bool {
	if s.state.IsNone() || c.set.Len() == 0 || len(req.Unsubscribe) > 0 {
		return false
	}
	switch c.typ {
	case resource.Endpoint:
		return req.subscribes() && (!s.returns || !s.opened.IsZero()) // else all is sent, whatever it reports
	case resource.Cluster, resource.Listener:
		return req.reports() && !req.subscribes()
	case resource.VirtualHost:
		return s.pieces && len(s.fresh) == 0 && req.reports() && !req.subscribes()
	}
	return false
}

// readNames makes the subscription. It tells whether that is most of the class's names.
func (st *stated) readNames(req *Request) bool {
	if st.channel.typ.Wildcard() {
		st.sub = subscription{all: true, base: resource.Empty()}
		return true
	}
	named, set := newMarks(st.index.Len()), st.channel.set
	st.sub = subscription{base: set}
	for name := range req.subscribed() {
		found, ok := st.index.Find(name)
		switch {
		case ok:
			named.add(found.Place())
		case string(name) == wildcard:
			return false
		default:
			st.sub.plus = with(st.sub.plus, string(name))
		}
	}
	if 2*named.count < set.Len() || len(st.sub.plus) > set.Len() {
		return false
	}
	for place := range st.index.Len() {
		if !named.has(place) {
			st.sub.minus = with(st.sub.minus, st.index.At(place).Name())
		}
	}
	return true
}

// readVersions compares what the client reports with what the class has.
func (st *stated) readVersions(req *Request) {
	c, own := st.channel, &st.channel.session.own
	st.have = newMarks(st.index.Len())
	all := c.covers(c.set)
	for name, version := range req.reported() {
		st.reports = true
		found, ok := st.index.Find(name)
		if ok && (all || c.wants(st.index.At(found.Place()).Name())) && st.index.Is(&found, version, own) {
			st.have.add(found.Place())
			delete(st.other, string(name))
			continue
		}
		if ok {
			st.have.remove(found.Place())
		}
		if st.other == nil {
			st.other = map[string]string{}
		}
		st.other[string(name)] = string(version)
	}
}

// settle makes what was read what the client holds. If it reports nothing, it holds nothing, and what it asks for is sent at
// once; of what the class lacks that needs an answer.
func (st *stated) settle() {
	c := st.channel
	for name := range c.sub.plus {
		if _, ok := st.other[name]; !ok {
			c.ask(name, false)
		}
	}
	if st.reports {
		c.held.base = c.set
		st.miss()
	} else {
		c.session.warming = warming{} // all is sent anyway
	}
	for name, version := range maps.All(st.other) {
		c.report(name, version)
	}
}

// miss notes what the client does not report of what it wants.
func (st *stated) miss() {
	c := st.channel
	if st.have.count == st.index.Len() {
		return
	}
	for place := range st.index.Len() {
		name := st.index.At(place).Name()
		if st.have.has(place) || !c.wants(name) {
			continue
		}
		h := holding{}
		if c.sub.named(name) {
			h.doubt = asked
		}
		c.held.note(name, h)
	}
}
