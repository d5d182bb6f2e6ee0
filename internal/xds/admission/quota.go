package admission

import "sync"

// Quota counts what each key has of something, such as streams or bytes. A key that has nothing is
// not kept.
type Quota[K comparable] struct {
	mu   sync.Mutex
	used map[K]int
}

// Take takes n for a key, unless it would then have more than limit. It returns what the key has
// had before.
func (q *Quota[K]) Take(key K, n, limit int) (had int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	had = q.used[key]
	if n > 0 && had+n > limit {
		return had, false
	}
	q.set(key, had+n)
	return had, true
}

// Return gives back n of what a key has.
func (q *Quota[K]) Return(key K, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.set(key, q.used[key]-n)
}

func (q *Quota[K]) set(key K, n int) {
	switch {
	case n <= 0:
		delete(q.used, key)
	case q.used == nil:
		q.used = map[K]int{key: n}
	default:
		q.used[key] = n
	}
}
