package features

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// falseAlarm is the probability at most that a statistical test fails though nothing is wrong.
const falseAlarm = 1e-9

// binomialBounds are the counts between which the successes of n independent trials with
// probability p each lie, but for a chance of falseAlarm: half of it on either side, by the exact
// distribution.
func binomialBounds(n int, p float64) (low, high int) {
	if p == 0 || p == 1 {
		return int(p) * n, int(p) * n
	}
	tail := 0.0
	for low = 0; low < n; low++ {
		if tail += binomial(n, low, p); tail > falseAlarm/2 {
			break
		}
	}
	tail = 0
	for high = n; high > 0; high-- {
		if tail += binomial(n, high, p); tail > falseAlarm/2 {
			break
		}
	}
	return low, high
}

func binomial(n, k int, p float64) float64 {
	log := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	return math.Exp(log(n) - log(k) - log(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

func TestBinomialBounds(t *testing.T) {
	low, high := binomialBounds(400, 0.5)
	require.Equal(t, 400, low+high, "the distribution is symmetric")
	require.InDelta(t, 200-6.1*10, low, 2, "6.1 standard deviations hold all but 1e-9")
	low, high = binomialBounds(10, 0.5)
	require.Equal(t, []int{0, 10}, []int{low, high}, "so few trials tell nothing")
}
