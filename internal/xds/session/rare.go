package session

import "github.com/lateen-mesh/lateen/internal/xds/resource"

// firstRare is the first of the types that few clients ask for: filters and names. Their state is
// made when the client asks for them first.
const firstRare = resource.Filter

// rareState is what few sessions need. It stands apart, because a session of the others is as large
// as a size class of the allocator.
type rareState struct {
	distrusted [resource.NumTypes]map[string]struct{} // Options.Distrust
	// types are the states of types from firstRare on, nil until the client has asked for them.
	types [resource.NumTypes - firstRare]*typeState
	// namesOneByOne is set if the client takes names as resources of their own, and not one table
	// with all.
	namesOneByOne bool
}

// unasked are the states of rare types in sessions whose client has not asked for them. They have
// no session, and nothing writes to them.
var unasked = func() (types [resource.NumTypes - firstRare]*typeState) {
	for i := range types {
		types[i] = &typeState{}
		types[i].init(nil, firstRare+resource.Type(i))
	}
	return types
}()

// init makes the state of a type of which the client has nothing.
func (ts *typeState) init(s *Session, t resource.Type) {
	ts.typ, ts.session, ts.nacks = t, s, noNacks
	ts.set, ts.sub.base, ts.held.base = resource.Empty(), resource.Empty(), resource.Empty()
}

// of returns the state of a type.
func (s *Session) of(t resource.Type) *typeState {
	switch {
	case t < firstRare:
		return &s.types[t]
	case s.rare == nil || s.rare.types[t-firstRare] == nil:
		return unasked[t-firstRare]
	}
	return s.rare.types[t-firstRare]
}

// ownRare returns the session's own rareState, to write to.
func (s *Session) ownRare() *rareState {
	if s.rare == nil {
		s.rare = &rareState{}
	}
	return s.rare
}

// askFor makes the state of a rare type, when the client asks for it first.
func (s *Session) askFor(t resource.Type) {
	if t < firstRare || s.of(t).session != nil {
		return
	}
	ts := &typeState{}
	ts.init(s, t)
	s.ownRare().types[t-firstRare] = ts
	if !s.state.IsNone() {
		ts.set = s.visible(t)
	}
}

// takeNamesOneByOne has the client get each name as a resource. A client says so by the wildcard,
// or names, in its first request for them. Agents of Istio name nothing there and take one table
// (P26).
func (s *Session) takeNamesOneByOne(ts *typeState) {
	s.rare.namesOneByOne = true
	if !s.state.IsNone() {
		ts.set = s.visible(ts.typ)
	}
}
