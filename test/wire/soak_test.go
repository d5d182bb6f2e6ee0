package wire

import (
	"flag"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

var soak = flag.Duration("soak", 0, "how long TestSoakLeavesNothingBehind lasts; 0 for a few rounds")

// TestSoakLeavesNothingBehind pushes generations to clients that come and go, and looks ten times.
// What the process holds is what it held after the first tenth of the time: nothing is kept of a
// client that has left, nor of a generation that is over.
func TestSoakLeavesNothingBehind(t *testing.T) {
	const clients, fewest, settled = 50, 5, 20
	m := newMesh(t, serve.Limits{})
	steady := m.healthy(clients)
	round := func() {
		passing, err := connect(m.address, false, 0)
		require.NoError(t, err)
		require.NoError(t, passing.subscribe(clients))
		go func() { _ = passing.run(nil) }()
		m.eventually("one more is there", func() bool { return m.server.connected() == clients+1 })
		m.push(steady)
		_ = passing.conn.Close()
		m.eventually("and gone", func() bool { return m.server.connected() == clients })
	}
	rounds := 0
	var before uint64
	for tenth := range 10 {
		for end, least := time.Now().Add(*soak/10), rounds+fewest; rounds < least || time.Now().Before(end); rounds++ {
			round()
		}
		now := reachable()
		t.Logf("%d %%: %d clients have come and gone; %d kB reachable, %d goroutines", 10*(tenth+1), rounds, now/1000,
			runtime.NumGoroutine())
		if before == 0 && rounds >= settled {
			before = now
		}
		if before > 0 && !raced {
			require.LessOrEqual(t, now, before+before/10, "the heap is flat")
		}
	}
}

// reachable is the heap after a collection.
func reachable() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
