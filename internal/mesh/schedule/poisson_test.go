package schedule_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/source"
)

// TestALongerDebounceJoinsChangesAsAdvised: of changes that come independently of each other, a
// share of e^(-rate·longer) of the batches is left (observe/advise promises so).
func TestALongerDebounceJoinsChangesAsAdvised(t *testing.T) {
	const rate, changes = 10.0, 3000
	batches := func(after time.Duration) (n float64) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, schedule.Debounce{After: after, Max: 10 * time.Second, Endpoints: true})
			r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
			advance(time.Minute)
			start := len(r.published())
			random := rand.New(rand.NewPCG(1, 2))
			for i := range changes {
				advance(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
				r.sink(source.Event{Changes: []source.Change{alias("b", int32(1+i))}})
			}
			advance(time.Minute)
			n = float64(len(r.published()) - start)
		})
		return n
	}
	const short, long = 100 * time.Millisecond, 120 * time.Millisecond
	require.InEpsilon(t, changes*math.Exp(-rate*short.Seconds()), batches(short), 0.1)
	require.InEpsilon(t, math.Exp(-rate*(long-short).Seconds()), batches(long)/batches(short), 0.05)
}
