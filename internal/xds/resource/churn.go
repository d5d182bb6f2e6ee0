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
}

// changes are those of an assignment, each within churnPause of the one before it.
type changes struct {
	latest     time.Time
	generation uint64
	number     int
}

const (
	// churnPause is within how long a change follows the one before it in an assignment that
	// churns.
	churnPause = 30 * time.Second
	// churnsFrom is how many such changes there are by then.
	churnsFrom = 3
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
func (c *churn) noteAll(names []string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		c.note(name, now)
	}
	c.any.Store(len(c.recent) > 0)
}

// note notes that an assignment changes. The caller holds mu.
func (c *churn) note(name string, now time.Time) {
	was, known := c.recent[name]
	switch {
	case known && was.generation == c.generation: // another form of it, for other places
		return
	case now.Sub(was.latest) > churnPause:
		was.number = 0
	}
	if !known && len(c.recent) >= maxChurning {
		c.forget(now)
	}
	if c.recent == nil {
		c.recent = map[string]changes{}
	}
	c.recent[name] = changes{latest: now, generation: c.generation, number: min(was.number+1, churnsFrom)}
}

// forget lets go of those that have been quiet, and of all if none has.
func (c *churn) forget(now time.Time) {
	maps.DeleteFunc(c.recent, func(_ string, of changes) bool { return now.Sub(of.latest) > churnPause })
	if len(c.recent) >= maxChurning {
		clear(c.recent)
	}
}

// Churns reports whether an assignment has changed three times or more, each time within 30 seconds
// of the last. It counts changes between assignments that sessions have asked for.
func (d *Differ) Churns(name string) bool {
	if !d.churn.any.Load() {
		return false
	}
	d.churn.mu.RLock()
	defer d.churn.mu.RUnlock()
	of := d.churn.recent[name]
	return of.number >= churnsFrom && d.now().Sub(of.latest) <= churnPause
}
