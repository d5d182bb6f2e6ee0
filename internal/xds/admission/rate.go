package admission

import (
	"sync"
	"time"
)

// Rates limits how often each key may do something rare, by the generic cell rate algorithm. A key
// that may do it as often as at first is not kept for long.
type Rates[K comparable] struct {
	mu      sync.Mutex
	full    map[K]time.Time // when the key may do it as often as at first
	sweepAt int
}

// Take reports whether a key may do something once more, of limit times at once and in each minute.
func (r *Rates[K]) Take(key K, limit int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	full := r.full[key]
	if full.Before(now) {
		full = now
	}
	full = full.Add(time.Minute / time.Duration(limit))
	if full.Sub(now) > time.Minute {
		return false
	}
	r.sweep(now)
	r.full[key] = full
	return true
}

func (r *Rates[K]) sweep(now time.Time) {
	if r.full == nil {
		r.full = map[K]time.Time{}
	}
	if len(r.full) < max(r.sweepAt, minSweep) {
		return
	}
	for key, full := range r.full {
		if full.Before(now) {
			delete(r.full, key)
		}
	}
	r.sweepAt = 2 * len(r.full)
}
