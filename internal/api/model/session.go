package model

import "time"

// Session keeps the requests of a client at the endpoint that answered its first one, also while
// that drains: the labels istio.io/persistent-session and istio.io/persistent-session-header of a
// Service, or sessionPersistence of a rule of the Gateway API. It is canonical (Pool). Either
// Cookie or Header is set.
type Session struct {
	Cookie string // its name
	// Path is that of the requests which have sessions, and the cookie's.
	Path   string
	TTL    time.Duration // of the cookie; 0 for as long as the client runs
	Header string        // its name
}
