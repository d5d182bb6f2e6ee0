package tokenreview

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"time"
)

const (
	// cacheSize bounds the answers that are remembered. When there are as many, those that are out
	// of date go, and if none is, all: each costs one more review.
	cacheSize = 16384
	// rememberFor is how long an answer holds: a Pod that is deleted loses its identity after this
	// long at the latest.
	rememberFor = 3 * time.Minute
	// rememberRefusal keeps one who tries again and again from the API server.
	rememberRefusal = 10 * time.Second
)

// cache remembers answers by the SHA-256 of their tokens, so that nobody can read tokens out of it.
type cache struct {
	now func() time.Time

	mu      sync.Mutex
	answers map[[sha256.Size]byte]answer
}

type answer struct {
	account Account
	refused bool
	until   time.Time
}

func newCache(now func() time.Time) *cache {
	return &cache{now: now, answers: map[[sha256.Size]byte]answer{}}
}

func (c *cache) get(hash [sha256.Size]byte) (a Account, refused, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, known := c.answers[hash]
	if !known || !c.now().Before(found.until) {
		return Account{}, false, false
	}
	return found.account, found.refused, true
}

// put remembers whose a token is, until it expires and not longer than rememberFor. A zero time is
// a token that does not say.
func (c *cache) put(hash [sha256.Size]byte, a Account, expires time.Time) {
	until := c.now().Add(rememberFor)
	if !expires.IsZero() && expires.Before(until) {
		until = expires
	}
	c.remember(hash, answer{account: a, until: until})
}

func (c *cache) refuse(hash [sha256.Size]byte) {
	c.remember(hash, answer{refused: true, until: c.now().Add(rememberRefusal)})
}

func (c *cache) remember(hash [sha256.Size]byte, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.answers) >= cacheSize {
		for h, old := range c.answers {
			if !c.now().Before(old.until) {
				delete(c.answers, h)
			}
		}
		if len(c.answers) >= cacheSize {
			clear(c.answers)
		}
	}
	c.answers[hash] = a
}

// expiry is when a token that was accepted says that it expires (RFC 7519, exp); zero if it does
// not say.
func expiry(token string) time.Time {
	_, rest, _ := strings.Cut(token, ".")
	payload, _, _ := strings.Cut(rest, ".")
	data, err := base64.RawURLEncoding.DecodeString(payload)
	var claims struct {
		Expires float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(data, &claims) != nil || claims.Expires <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expires), 0)
}
