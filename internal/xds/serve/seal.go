package serve

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/session"
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
	s.mu.Unlock()
	for _, st := range streams {
		st.on(sealAsked)
	}
	pollUntil(ctx, func() bool {
		streams = slices.DeleteFunc(streams, func(st *stream) bool { return !st.driver.now().sealing })
		return len(streams) == 0
	})
}

// seal sends what the session has to say before the stream ends. The caller drives.
func (st *stream) seal() error {
	if st.sealed {
		return nil
	}
	st.sealed = true
	now := st.server.options.Now()
	responses := st.step(func() []session.Response { return st.session.Seal(now) })
	if len(responses) == 0 {
		st.on(sealDone)
		return nil
	}
	return st.conclude(responses, now, false)
}
