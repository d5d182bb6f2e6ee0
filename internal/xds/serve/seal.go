package serve

import (
	"context"
	"maps"
	"slices"
	"time"
)

// sealLimit is how long Stop waits for clients to read their seals. Clients that have not read them
// by then get lists from the next server, as without seals.
const sealLimit = time.Second

// seal has each stream seal the endpoints that its client has as resources of their own
// (session.Session.Seal). The client then reports a version for them to the next server, and is not
// sent all of them again.
func (s *Server) seal(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sealLimit)
	defer cancel()
	s.mu.Lock()
	streams := slices.Collect(maps.Keys(s.streams))
	for _, st := range streams {
		st.sealPending.Store(true)
	}
	s.mu.Unlock()
	for _, st := range streams {
		st.conn.Poke()
	}
	pollUntil(ctx, func() bool {
		streams = slices.DeleteFunc(streams, func(st *stream) bool { return !st.sealPending.Load() })
		return len(streams) == 0
	})
}

// seal sends what the session has to say before the stream ends. The caller holds driving.
func (st *stream) seal() error {
	if !st.sealPending.Load() || st.sealed {
		return nil
	}
	st.sealed = true
	now := st.server.options.Now()
	st.beginStep()
	responses := st.session.Seal(now)
	st.endStep()
	if len(responses) == 0 {
		st.sealPending.Store(false)
		return nil
	}
	return st.conclude(responses, now, false)
}
