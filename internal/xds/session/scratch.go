package session

import "sync"

// Scratch lends sessions memory for the duration of an event or until an answer. So a steady stream
// of pushes and ACKs allocates next to nothing, and an idle session keeps nothing for it. All
// sessions of a process may share one. Without one (nil) everything is allocated.
type Scratch struct {
	records sync.Pool // of *sent
	lists   sync.Pool // of *[burst]Response
}

// responsesPerEvent is how many responses a new service takes: a cluster, endpoints, virtual hosts,
// and one to spare.
const responsesPerEvent = 4

// Return takes back the list of responses that an event returned. The caller must not use it any
// more.
func (s *Scratch) Return(responses []Response) {
	if s != nil && cap(responses) == responsesPerEvent {
		clear(responses)
		s.lists.Put((*[responsesPerEvent]Response)(responses[:responsesPerEvent]))
	}
}

// list returns an empty list with room for the responses of an event.
func (s *Scratch) list() []Response {
	if s != nil {
		if l, ok := s.lists.Get().(*[responsesPerEvent]Response); ok {
			return l[:0]
		}
	}
	return make([]Response, 0, responsesPerEvent)
}

// record returns an empty record of a response.
func (s *Scratch) record() *sentResponse {
	if s != nil {
		if r, ok := s.records.Get().(*sentResponse); ok {
			return r
		}
	}
	return &sentResponse{}
}

// reuse takes back a record that nobody holds any more.
func (s *Scratch) reuse(r *sentResponse) {
	if s != nil {
		*r = sentResponse{}
		s.records.Put(r)
	}
}
