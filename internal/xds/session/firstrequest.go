package session

import (
	"iter"
	"maps"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Lists are the names and versions of a request as they are on the wire. What is yielded is valid
// until the next one.
type Lists interface {
	// Lengths returns how many names and versions there are.
	Lengths() (subscribed, reported int)
	Subscribed() iter.Seq[[]byte]
	Reported() iter.Seq2[[]byte, []byte]
}

// subscribed yields the names in resource_names_subscribe, from Lists or from Subscribe.
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

// reported yields the entries of initial_resource_versions, from Lists or from InitialVersions. On
// the wire a name may stand twice; the last one counts.
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

// subscribes reports whether the request subscribes to any name.
func (r *Request) subscribes() bool {
	if r.Lists != nil {
		n, _ := r.Lists.Lengths()
		return n > 0
	}
	return len(r.Subscribe) > 0
}

// reports reports whether the request says what the client has.
func (r *Request) reports() bool {
	if r.Lists != nil {
		_, n := r.Lists.Lengths()
		return n > 0
	}
	return len(r.InitialVersions) > 0
}

// expanded returns the request with Subscribe and InitialVersions in place of Lists. Most requests
// have no Lists; expandLists stands alone so that those are not moved to the heap.
func (r Request) expanded() Request {
	if r.Lists == nil {
		return r
	}
	return expandLists(r)
}

func expandLists(r Request) Request {
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

// firstRequest is a stream's first request of a type, compared with what the class has. A client
// that reconnects reports all that it has, which mostly is all that its class has. A new client
// asks for the endpoints of all clusters that it was just sent. The session looks at each name
// once, and keeps the difference alone.
//
// What a client reports affects only what that client is sent.
type firstRequest struct {
	ts       *typeState
	index    *resource.Index
	sub      subscription
	upToDate placeSet          // places of resources that the client reports at the class's version
	others   map[string]string // what else the client reports
	reports  bool
}

// placeSet is a set of places in an index, as bits.
type placeSet struct {
	bits  []uint64
	count int
}

func newMarks(places int) placeSet { return placeSet{bits: make([]uint64, (places+63)/64)} }

func (m *placeSet) has(place int) bool { return m.bits[place/64]&(1<<(place%64)) != 0 }

func (m *placeSet) add(place int) {
	if !m.has(place) {
		m.bits[place/64] |= 1 << (place % 64)
		m.count++
	}
}

func (m *placeSet) remove(place int) {
	if m.has(place) {
		m.bits[place/64] &^= 1 << (place % 64)
		m.count--
	}
}

// openByIndex takes a stream's first request of a type, if most of its names are the class's.
// Otherwise it does nothing and returns false. The result is that of openByName.
func (s *Session) openByIndex(ts *typeState, req *Request) bool {
	if !s.canOpenByIndex(ts, req) {
		return false
	}
	st := firstRequest{ts: ts, index: s.opt.Differ.Index(ts.set)}
	if !st.readNames(req) {
		return false
	}
	wanted := ts.sub
	ts.sub = st.sub
	st.readVersions(req)
	if st.reports && 2*st.upToDate.count < st.index.Len() {
		ts.sub = wanted
		return false
	}
	st.apply()
	return true
}

// canOpenByIndex reports whether openByIndex applies. It does not to routes and secrets: there are
// few, and their answers may have to wait for others, so their names must be remembered one by one.
func (s *Session) canOpenByIndex(ts *typeState, req *Request) bool {
	if s.state.IsNone() || ts.set.Len() == 0 || len(req.Unsubscribe) > 0 {
		return false
	}
	switch ts.typ {
	case resource.Endpoint:
		// Otherwise everything is sent, whatever the client reports.
		return req.subscribes() && (!s.isReconnect || !s.openedAt.IsZero())
	case resource.Cluster, resource.Listener:
		return req.reports() && !req.subscribes()
	case resource.VirtualHost:
		return s.vhds && len(s.unansweredTables) == 0 && req.reports() && !req.subscribes()
	}
	return false
}

// readNames makes the subscription. It reports whether that is most of the class's names.
func (first *firstRequest) readNames(req *Request) bool {
	if first.ts.typ.Wildcard() {
		first.sub = subscription{all: true, base: resource.Empty()}
		return true
	}
	named, set := newMarks(first.index.Len()), first.ts.set
	first.sub = subscription{base: set}
	for name := range req.subscribed() {
		found, ok := first.index.Find(name)
		switch {
		case ok:
			named.add(found.Place())
		case string(name) == wildcard:
			return false
		default:
			first.sub.plus = with(first.sub.plus, string(name))
		}
	}
	if 2*named.count < set.Len() || len(first.sub.plus) > set.Len() {
		return false
	}
	for place := range first.index.Len() {
		if !named.has(place) {
			first.sub.minus = with(first.sub.minus, first.index.At(place).Name())
		}
	}
	return true
}

// readVersions compares what the client reports with what the class has.
func (first *firstRequest) readVersions(req *Request) {
	ts, own := first.ts, &first.ts.session.own
	first.upToDate = newMarks(first.index.Len())
	all := ts.covers(ts.set)
	for name, version := range req.reported() {
		first.reports = true
		found, ok := first.index.Find(name)
		if ok && (all || ts.wants(first.index.At(found.Place()).Name())) && first.index.Is(&found, version, own) {
			first.upToDate.add(found.Place())
			delete(first.others, string(name))
			continue
		}
		if ok {
			first.upToDate.remove(found.Place())
		}
		if first.others == nil {
			first.others = map[string]string{}
		}
		first.others[string(name)] = string(version)
	}
}

// apply makes what was read what the client holds. A client that reports nothing holds nothing, and
// is sent at once what it asks for. Names that the class lacks need an answer.
func (first *firstRequest) apply() {
	ts := first.ts
	for name := range ts.sub.plus {
		if _, ok := first.others[name]; !ok {
			ts.oweAnswer(name, false)
		}
	}
	if first.reports {
		ts.held.base = ts.set
		first.setMissing()
	} else {
		ts.session.warming = warming{} // everything is sent anyway
	}
	for name, version := range maps.All(first.others) {
		ts.report(name, version)
	}
}

// setMissing records what the client wants and does not report.
func (first *firstRequest) setMissing() {
	ts := first.ts
	if first.upToDate.count == first.index.Len() {
		return
	}
	for place := range first.index.Len() {
		name := first.index.At(place).Name()
		if first.upToDate.has(place) || !ts.wants(name) {
			continue
		}
		h := holding{}
		if ts.sub.named(name) {
			h.certainty = answerDue
		}
		ts.held.set(name, h)
	}
}
