package session

import "github.com/lateen-mesh/lateen/internal/xds/resource"

// Misjudged are the types of which the session thinks wrongly that nothing is to be done, or that the client has answered all.
func (s *Session) Misjudged() (types []resource.Type) {
	for t := range resource.NumTypes {
		c := &s.channels[t]
		due, later := c.outlook()
		if s.still.has(t) && (!c.isStill(due, later) || c.behind != 0) || s.awaits.has(t) != (len(c.sent) > 0) {
			types = append(types, t)
		}
	}
	return types
}
