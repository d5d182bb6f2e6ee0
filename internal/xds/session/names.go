package session

import "github.com/lateen-mesh/lateen/internal/xds/resource"

// rareState is what few sessions need. It stands apart, because a session of the others is as large
// as a size class of the allocator.
type rareState struct {
	distrusted [resource.NumTypes]map[string]struct{} // Options.Distrust
	// names is the state of names once the client has asked for them.
	names *typeState
	// namesOneByOne is set if the client takes names as resources of their own, and not one table
	// with all.
	namesOneByOne bool
}

const _ = uint(resource.NumTypes - 1 - resource.Name) // names are the last type

// unaskedNames is the state of names in sessions whose client has not asked for them. Nothing
// writes to it.
var unaskedNames = func() *typeState {
	ts := &typeState{}
	ts.init(nil, resource.Name)
	return ts
}()

// init makes the state of a type of which the client has nothing.
func (ts *typeState) init(s *Session, t resource.Type) {
	ts.typ, ts.session, ts.nacks = t, s, noNacks
	ts.set, ts.sub.base, ts.held.base = resource.Empty(), resource.Empty(), resource.Empty()
}

// of returns the state of a type.
func (s *Session) of(t resource.Type) *typeState {
	switch {
	case t != resource.Name:
		return &s.types[t]
	case s.rare == nil || s.rare.names == nil:
		return unaskedNames
	}
	return s.rare.names
}

// ownRare returns the session's own rareState, to write to.
func (s *Session) ownRare() *rareState {
	if s.rare == nil {
		s.rare = &rareState{}
	}
	return s.rare
}

// askForNames makes the state of names, when the client asks for them first.
func (s *Session) askForNames() {
	rare := s.ownRare()
	if rare.names != nil {
		return
	}
	rare.names = &typeState{}
	rare.names.init(s, resource.Name)
	if !s.state.IsNone() {
		rare.names.set = s.visible(resource.Name)
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
