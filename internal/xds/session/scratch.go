package session

import "sync"

// Scratch is what sessions lend each other for as long as an event or an answer takes, so that a steady stream of pushes and ACKs
// allocates next to nothing and an idle session keeps nothing for it. It may be shared by all sessions of a process. Without
// one (nil) everything is allocated.
type Scratch struct {
	records sync.Pool // of *sent
	lists   sync.Pool // of *[burst]Response
}

// burst is how many responses a new service comes to: a cluster, endpoints, virtual hosts, and one to spare.
const burst = 4

// Return takes back the list of responses that an event came to. Whoever calls it has no use for them any more.
func (s *Scratch) Return(responses []Response) {
	if s != nil && cap(responses) == burst {
		clear(responses)
		s.lists.Put((*[burst]Response)(responses[:burst]))
	}
}

// list is an empty list with room for a burst of responses.
func (s *Scratch) list() []Response {
	if s != nil {
		if l, ok := s.lists.Get().(*[burst]Response); ok {
			return l[:0]
		}
	}
	return make([]Response, 0, burst)
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
