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
	// cacheSize is the limit of cached answers. When it is reached, expired answers are dropped, or
	// all of them if none is expired. Each dropped answer costs one more review.
	cacheSize = 16384
	// acceptedTTL is how long a positive answer is cached. A deleted Pod loses its identity within
	// that time.
	acceptedTTL = 3 * time.Minute
	// refusedTTL keeps a client that retries a refused token away from the API server.
	refusedTTL = 10 * time.Second
)

// cache holds answers by the SHA-256 of their tokens, so that no token can be read from it.
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

// put caches the account of a token until it expires, and for acceptedTTL at most. A zero time
// means that the token does not say.
func (c *cache) put(hash [sha256.Size]byte, a Account, expires time.Time) {
	until := c.now().Add(acceptedTTL)
	if !expires.IsZero() && expires.Before(until) {
		until = expires
	}
	c.remember(hash, answer{account: a, until: until})
}

func (c *cache) refuse(hash [sha256.Size]byte) {
	c.remember(hash, answer{refused: true, until: c.now().Add(refusedTTL)})
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

// expiry returns when an accepted token expires according to its claim exp (RFC 7519); zero if it
// does not say.
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
