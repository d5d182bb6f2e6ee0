package admission

import (
	"context"
	"sync"
	"time"
)

// Shares divides what new streams compete for among those who open them, by a key that they cannot
// choose: one of them can take neither the whole rate at which streams begin nor all places of
// streams that are not known yet. Whoever asks for more than its share waits for itself alone.
//
// It keeps a key as long as somebody waits under it and for maxWait after at most, which bounds the
// number of keys by the rate at which connections are accepted.
type Shares[K comparable] struct {
	rate   float64 // streams per second and key
	places int     // and key

	mu      sync.Mutex
	known   map[K]*share
	sweepAt int // keys from which on unused ones are looked for
}

type share struct {
	bucket *tokenBucket
	places Semaphore
	users  int // that wait or have a place
}

const (
	// shareOfAll is the part of the rate, and of the places, that one key may take.
	shareOfAll = 4
	// maxPlaces are fewer than the tokens that are reviewed at a time, so that the bad tokens of
	// one key do not make others wait.
	maxPlaces = 8
	minSweep  = 1024
)

// NewPlaces returns shares of so many places for each key, and of no rate.
func NewPlaces[K comparable](places int) *Shares[K] {
	return &Shares[K]{rate: 1, places: places, known: map[K]*share{}, sweepAt: minSweep}
}

// NewShares returns the shares of a limiter's rate and of a gate's queue: a quarter each.
func NewShares[K comparable](l *StreamLimiter, g *Gate) *Shares[K] {
	return &Shares[K]{
		rate:    max(1, l.bucket.rate/shareOfAll),
		places:  min(maxPlaces, cap(g.queue)/shareOfAll),
		known:   map[K]*share{},
		sweepAt: minSweep,
	}
}

// Wait waits until a stream of the key may begin as far as its share of the rate goes. It returns
// false if the stream is refused: it would wait for more than 10 s, or ctx has ended.
func (s *Shares[K]) Wait(ctx context.Context, key K, now time.Time) bool {
	of := s.use(key, now)
	defer s.unuse(of)
	wait, ok := of.bucket.reserve(now)
	return ok && Pause(ctx, wait)
}

// Enter waits for a place of the key, which leave gives back. It returns the cause if ctx ends
// before.
func (s *Shares[K]) Enter(ctx context.Context, key K, now time.Time) (leave func(), err error) {
	of := s.use(key, now)
	if err := of.places.Acquire(ctx); err != nil {
		s.unuse(of)
		return nil, err
	}
	return sync.OnceFunc(func() {
		of.places.Release()
		s.unuse(of)
	}), nil
}

func (s *Shares[K]) use(key K, now time.Time) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.known[key]
	if of == nil {
		s.sweep(now)
		of = &share{bucket: newTokenBucket(s.rate, now), places: make(Semaphore, s.places)}
		s.known[key] = of
	}
	of.users++
	return of
}

func (s *Shares[K]) unuse(of *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of.users--
}

// sweep removes the keys that nobody uses and whose rate is not used up.
func (s *Shares[K]) sweep(now time.Time) {
	if len(s.known) < s.sweepAt {
		return
	}
	for key, of := range s.known {
		if of.users == 0 && of.bucket.isFull(now) {
			delete(s.known, key)
		}
	}
	s.sweepAt = max(minSweep, 2*len(s.known))
}
