package tokenreview

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// acceptedSize and refusedSize are the limits of cached answers. Beyond them the oldest is
	// dropped, which costs one more review. Refusals are apart, so that no number of bad tokens
	// drops a good one.
	acceptedSize = 16384
	refusedSize  = 4096
	// acceptedTTL is how long a positive answer is cached. A deleted Pod loses its identity within
	// that time.
	acceptedTTL = 3 * time.Minute
	// refusedTTL keeps a client that retries a refused token away from the API server.
	refusedTTL = 10 * time.Second
)

// hash is the SHA-256 of a token, so that no token can be read from the cache.
type hash [sha256.Size]byte

func hashOf(token string) hash { return sha256.Sum256([]byte(token)) }

// cache holds answers by the hashes of their tokens.
type cache struct {
	now func() time.Time

	mu                sync.Mutex
	accepted, refused answers
}

func newCache(now func() time.Time) *cache {
	return &cache{now: now, accepted: newAnswers(acceptedSize), refused: newAnswers(refusedSize)}
}

// account returns the account of a token that was accepted a moment ago.
func (c *cache) account(h hash) (a Account, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.accepted.get(h, c.now())
	if found == nil {
		return Account{}, false
	}
	return found.account, true
}

// isRefused reports whether a token was refused a moment ago.
func (c *cache) isRefused(h hash) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused.get(h, c.now()) != nil
}

// accept caches the account of a token until it expires, and for acceptedTTL at most. A zero time
// means that the token does not say.
func (c *cache) accept(h hash, a Account, expires time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := c.now().Add(acceptedTTL)
	if !expires.IsZero() && expires.Before(until) {
		until = expires
	}
	c.refused.drop(h)
	c.accepted.put(&answer{hash: h, account: a, until: until})
}

func (c *cache) refuse(h hash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted.drop(h)
	c.refused.put(&answer{hash: h, until: c.now().Add(refusedTTL)})
}

// answers are at most size answers.
type answers struct {
	size  int
	known map[hash]*list.Element // of order
	order *list.List             // of *answer, oldest first
}

type answer struct {
	hash    hash
	account Account
	until   time.Time
}

func newAnswers(size int) answers {
	return answers{size: size, known: map[hash]*list.Element{}, order: list.New()}
}

// get returns an answer that still holds, or nil.
func (a *answers) get(h hash, now time.Time) *answer {
	e := a.known[h]
	if e == nil {
		return nil
	}
	found, _ := e.Value.(*answer)
	if !now.Before(found.until) {
		a.drop(h)
		return nil
	}
	return found
}

func (a *answers) put(n *answer) {
	a.drop(n.hash)
	if len(a.known) >= a.size {
		oldest, _ := a.order.Front().Value.(*answer)
		a.drop(oldest.hash)
	}
	a.known[n.hash] = a.order.PushBack(n)
}

func (a *answers) drop(h hash) {
	if e := a.known[h]; e != nil {
		a.order.Remove(e)
		delete(a.known, h)
	}
}
