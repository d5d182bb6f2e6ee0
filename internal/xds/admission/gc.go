package admission

import (
	"runtime"
	"runtime/metrics"
	"sync"
)

// earlyGC runs a garbage collection while new streams wait, when their garbage is about to cause
// one.
//
// Left to itself, the runtime starts too late amid new streams: it expects them to allocate as
// little as the connected ones did. Goroutines that allocate must then assist, which took both of
// two CPUs for 100 to 350 ms, during which no push makes progress. A collection that runs while the
// streams wait takes 30 to 70 ms.
type earlyGC struct {
	heap    func() heapStats
	collect func()
	mu      sync.Mutex
}

// heapStats are sizes in bytes: what is in use or not swept yet, the size at which the next
// collection is to end, and what the last collection has left.
type heapStats struct{ used, goal, live uint64 }

// isGCNear reports whether a collection is near and worthwhile. With a memory limit (GOMEMLIMIT) it
// may be near all the time; so half as much again as the last one has left must have come since.
func (h heapStats) isGCNear() bool { return h.used >= h.goal/10*9 && h.used >= h.live/2*3 }

func newEarlyGC() *earlyGC {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/goal:bytes"}, {Name: "/gc/heap/live:bytes"},
	}
	return &earlyGC{collect: runtime.GC, heap: func() heapStats {
		metrics.Read(samples)
		return heapStats{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()}
	}}
}

// collectIfNear runs a collection if one is near. Those who call meanwhile wait until it is done.
func (c *earlyGC) collectIfNear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heap().isGCNear() {
		c.collect()
	}
}
