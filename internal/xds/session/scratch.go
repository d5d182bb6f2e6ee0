package session

import "sync"

// Scratch is what sessions lend each other for as long as an event or an answer takes, so that a steady stream of pushes and ACKs
// allocates next to nothing and an idle session keeps nothing for it. It may be shared by all sessions of a process. Without
// one (nil) everything is allocated.
type Scratch struct {
	records sync.Pool // of *sent
	lists   sync.Pool // of *[1]Response
}

// Return takes back the list of responses that an event came to. Whoever calls it has no use for them any more.
func (s *Scratch) Return(responses []Response) {
	if s != nil && cap(responses) == 1 {
		list := (*[1]Response)(responses[:1])
		list[0] = Response{}
		s.lists.Put(list)
	}
}

// list is an empty list with room for one response.
func (s *Scratch) list() []Response {
	if s != nil {
		if l, ok := s.lists.Get().(*[1]Response); ok {
			return l[:0]
		}
	}
	return nil
}

// record is an empty record of a response.
func (s *Scratch) record() *sent {
	if s != nil {
		if r, ok := s.records.Get().(*sent); ok {
			return r
		}
	}
	return &sent{}
}

// reuse takes a record back that nobody holds any more.
func (s *Scratch) reuse(r *sent) {
	if s != nil {
		*r = sent{}
		s.records.Put(r)
	}
}
