package wire

import (
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait after failures: the double each time, between half of that and all.
// The zero value is not of use.
type Backoff struct {
	// Base is the longest wait after the first failure, Max the longest of all.
	Base, Max time.Duration

	failures int
}

// Next counts a failure, and returns how long to wait.
func (b *Backoff) Next() time.Duration {
	longest := b.Base << min(b.failures, 20)
	if longest <= 0 || longest > b.Max {
		longest = b.Max
	}
	b.failures++
	return longest/2 + rand.N(longest/2+1) //nolint:gosec // it spreads attempts, no more
}

// Reset forgets the failures.
func (b *Backoff) Reset() { b.failures = 0 }
