package accessreview

import (
	"sync"
	"time"
)

const (
	// cacheSize is the limit of cached answers. When it is reached, expired answers are dropped, or
	// all of them if none is expired. Each dropped answer costs one more review.
	cacheSize = 4096
	// answerTTL is how long an answer is cached: as long as a right may outlive its Role for a
	// proxy that connects.
	answerTTL = 30 * time.Second
)

// account is a service account.
type account struct{ namespace, name string }

// cache holds answers by account.
type cache struct {
	now func() time.Time

	mu      sync.Mutex
	answers map[account]answer
}

type answer struct {
	may   bool
	until time.Time
}

func newCache(now func() time.Time) *cache {
	return &cache{now: now, answers: map[account]answer{}}
}

func (c *cache) get(a account) (may, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, known := c.answers[a]
	if !known || !c.now().Before(found.until) {
		return false, false
	}
	return found.may, true
}

func (c *cache) put(a account, may bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if _, known := c.answers[a]; !known && len(c.answers) >= cacheSize {
		for other, old := range c.answers {
			if !now.Before(old.until) {
				delete(c.answers, other)
			}
		}
		if len(c.answers) >= cacheSize {
			clear(c.answers)
		}
	}
	c.answers[a] = answer{may: may, until: now.Add(answerTTL)}
}
