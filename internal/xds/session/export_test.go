package session

import "github.com/lateen-mesh/lateen/internal/xds/resource"

// Misjudged are the types of which the session thinks wrongly that nothing is to be done, or that
// the client has answered all.
func (s *Session) Misjudged() (types []resource.Type) {
	for t := range resource.NumTypes {
		ts := s.of(t)
		due, later := ts.pending()
		if s.idle.has(t) && (!ts.isIdle(due, later) || ts.behindSince != 0) ||
			s.awaitsAnswer.has(t) != (len(ts.unanswered) > 0) {
			types = append(types, t)
		}
	}
	return types
}
