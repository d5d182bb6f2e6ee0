package resource

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// churn knows which assignments change often. A Differ notes each change once, whoever asks for it
// first.
type churn struct {
	any atomic.Bool // there is one in recent

	mu         sync.RWMutex
	generation uint64
	recent     map[string]changes
	forgot     time.Time // when it last looked for those that have been quiet
}

// changes are those of an assignment, each within churnPause of the one before it.
type changes struct {
	latest     time.Time
	generation uint64
	version    Version
	number     int
	crowded    time.Time // when it last changed with many others
}

const (
	// churnPause is within how long a change follows the one before it in an assignment that
	// churns.
	churnPause = 30 * time.Second
	// churnsFrom is how many such changes there are by then.
	churnsFrom = 3
	// crowd is with how many others it may change: each that goes by members takes a response of
	// its own, which costs Envoy as much as a list of 70 endpoints.
	crowd = 3
	// maxChurning is how many assignments are remembered.
	maxChurning = 16 << 10
)

// advance tells that there is a new generation.
func (c *churn) advance() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
}

// noteAll notes that assignments change.
func (c *churn) noteAll(changed []*Resource, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range changed {
		c.note(r, now, len(changed) > crowd+1)
	}
	c.any.Store(len(c.recent) > 0)
}

// note notes that an assignment changes. The caller holds mu.
func (c *churn) note(r *Resource, now time.Time, crowded bool) {
	was, known := c.recent[r.name]
	switch {
	case known && was.generation == c.generation, // another form of it, for other places
		known && was.version == r.version: // of a session that is late
		return
	case now.Sub(was.latest) > churnPause:
		was.number = 0
	}
	if !known && len(c.recent) >= maxChurning && !c.forget(now) {
		return
	}
	if c.recent == nil {
		c.recent = map[string]changes{}
	}
	if crowded {
		was.crowded = now
	}
	c.recent[r.name] = changes{
		latest: now, generation: c.generation, version: r.version, number: min(was.number+1, churnsFrom),
		crowded: was.crowded,
	}
}

// forget lets go of those that have been quiet, and reports whether there is room. It looks once a
// second, as sessions wait for it.
func (c *churn) forget(now time.Time) bool {
	if now.Sub(c.forgot) >= time.Second {
		c.forgot = now
		maps.DeleteFunc(c.recent, func(_ string, of changes) bool { return now.Sub(of.latest) > churnPause })
	}
	return len(c.recent) < maxChurning
}

// Churns reports whether an assignment has changed three times or more, each time within 30 seconds
// of the last, and for 30 seconds with few others at a time. It counts changes between assignments
// that sessions have asked for.
func (d *Differ) Churns(name string) bool {
	if !d.churn.any.Load() {
		return false
	}
	d.churn.mu.RLock()
	defer d.churn.mu.RUnlock()
	of := d.churn.recent[name]
	now := d.now()
	return of.number >= churnsFrom && now.Sub(of.latest) <= churnPause && now.Sub(of.crowded) > churnPause
}
