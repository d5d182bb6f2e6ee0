package serve

import (
	"context"
	"maps"
	"slices"
	"time"
)

// sealLimit is how long Stop waits for clients to read their seals, and sealPoll how often it looks. Who has not read them by then gets
// lists from whom it comes to, as it would have without.
const (
	sealLimit = time.Second
	sealPoll  = 5 * time.Millisecond
)

// seal has clients that have endpoints as resources of their own know a version for what they have, by which they go on from there with
// the next server, rather than be sent all of it again (session.Session.Seal).
func (s *Server) seal(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sealLimit)
	defer cancel()
	s.mu.Lock()
	parting := slices.Collect(maps.Keys(s.streams))
	for _, st := range parting {
		st.parting.Store(true)
	}
	s.mu.Unlock()
	for _, st := range parting {
		st.conn.Poke()
	}
	poll := time.NewTicker(sealPoll)
	defer poll.Stop()
	for {
		parting = slices.DeleteFunc(parting, func(st *stream) bool { return !st.parting.Load() })
		if len(parting) == 0 {
			return
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}

// seal sends what is left to say to a client that is about to lose its stream. The caller holds driving.
func (st *stream) seal() error {
	if !st.parting.Load() || st.sealed {
		return nil
	}
	st.sealed = true
	now := st.server.options.Now()
	st.mu.Lock()
	responses := st.session.Seal(now)
	st.mu.Unlock()
	if len(responses) == 0 {
		st.parting.Store(false)
		return nil
	}
	return st.conclude(responses, now, false)
}
