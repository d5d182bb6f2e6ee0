package session

import (
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// requestSotw takes a DiscoveryRequest. It states the whole subscription. Only a request that
// answers the latest response, or none, is read, because another one that answers the latest is on
// its way (P12).
func (s *Session) requestSotw(ts *typeState, req Request, now time.Time) {
	s.handleAnswer(ts, req, now)
	first := !ts.started
	if !first && req.Nonce != "" && req.Nonce != ts.nonce(ts.lastSent) {
		return
	}
	ts.started = true
	if first && req.VersionInfo != "" && !strings.HasSuffix(req.VersionInfo, versionMark) {
		s.markedVersions.add(ts.typ)
	}
	if d := digestOf(req.Names); first || d != *ts.digest {
		ts.digest = &d
		s.replaceSubscription(ts, req.Names, first)
	} else if req.Nonce == "" && ts.lastSent != 0 {
		s.oweAll(ts) // the client forgot what it was sent
	}
	s.answerRepeated(ts, first)
}

// versionOf returns the version of a response. A client's ACK is told from a refusal and from other
// requests by it. So no two responses of a stream have the same version. Nonces begin anew on the
// next stream; so no response there has the version that the client brought along.
func (ts *typeState) versionOf(nonce string) string {
	v := ts.set.Root().String() + "/" + nonce
	if ts.session.markedVersions.has(ts.typ) {
		v += versionMark
	}
	return v
}

// versionMark ends the versions of a stream to which the client brought a version without it.
const versionMark = "'"

// replaceSubscription makes the names the subscription. No names in the first request are a
// wildcard, for types that have one; later they are no subscription.
func (s *Session) replaceSubscription(ts *typeState, names []string, first bool) {
	all := ts.typ.Wildcard() && (slices.Contains(names, wildcard) || first && len(names) == 0)
	switch {
	case all && !ts.sub.all:
		s.subscribeAll(ts)
	case !all && ts.sub.all:
		s.unsubscribeAll(ts)
	}
	wanted := make(map[string]struct{}, len(names))
	for _, name := range names {
		wanted[name] = struct{}{}
	}
	var gone []string
	ts.sub.each(func(name string) {
		if _, ok := wanted[name]; !ok {
			gone = append(gone, name)
		}
	})
	s.unsubscribe(ts, gone)
	for _, name := range names {
		if name != wildcard && ts.sub.add(name) && !ts.sub.all {
			ts.oweAnswer(name, false)
		}
	}
	ts.responseDue = ts.typ.Wildcard() // whatever changed, the answer is the full list
	ts.sub.compact(s.opt.Differ, ts.typ, ts.set)
}

// answerRepeated answers a request that repeats what the client wants, even if it looks like a
// plain ACK. A cluster or listener that changed asks again for what it refers to, with the same
// names (P11).
func (s *Session) answerRepeated(ts *typeState, first bool) {
	switch {
	case first && ts.typ == resource.Endpoint:
		s.warming = warming{} // everything is answered anyway
	case ts.typ == resource.Endpoint:
		s.answerWarming(ts)
	case ts.typ == resource.Route && ts.replay && !first:
		s.oweAll(ts)
	}
	ts.replay = false
}

func (s *Session) oweAll(ts *typeState) {
	ts.responseDue = ts.typ.Wildcard()
	ts.sub.each(func(name string) { ts.oweAnswer(name, true) })
}

// addUnanswered adds to a full response's changes those of the unanswered responses before it. It
// states them again, so they may be why it is refused.
func (ts *typeState) addUnanswered(r *sentResponse, list []*resource.Resource) {
	for _, earlier := range ts.unanswered {
		var more []*resource.Resource
		for _, u := range earlier.upserts {
			name := u.Name()
			if again := find(list, name); again != nil && find(r.upserts, name) == nil {
				more = append(more, again)
				h := earlier.heldBefore(name, &ts.session.own)
				if ts.session.own.Version(u) != ts.session.own.Version(again) {
					h = h.orVersion(ts.session.own.Version(u))
				}
				r.setHeldBefore(name, h)
			}
		}
		r.upserts = merge(r.upserts, more)
	}
}

// fullList returns all that the client is to have of a type of which absence removes (P16): what
// the class has, but the older version where the client refused one or is to get it later, and what
// is to be removed later. Without exceptions it is the class's own list.
func (ts *typeState) fullList(d *resource.Differ) (*resource.Change, []*resource.Resource) {
	if ts.sub.all && len(ts.held.exceptions) == 0 {
		change := d.Diff(ts.typ, resource.Empty(), ts.set)
		return change, change.Upserts
	}
	var list []*resource.Resource
	for r := range ts.set.All() {
		if !ts.wants(r.Name()) {
			continue
		}
		if h, ok := ts.held.exceptions[r.Name()]; ok {
			r = h.resource
		}
		if r != nil {
			list = append(list, r)
		}
	}
	for name, h := range ts.held.exceptions {
		if h.resource != nil && ts.set.Get(name) == nil {
			list = append(list, h.resource)
		}
	}
	slices.SortFunc(list, byName)
	return nil, list
}
