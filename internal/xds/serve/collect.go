package serve

import (
	"runtime"
	"runtime/metrics"
	"sync"
)

// collector collects garbage while newcomers wait, when what they leave is about to bring a collection about. Amid newcomers it begins late, because
// the runtime expects them to allocate as little as those who were there, and then whoever allocates has to help: on two CPUs that
// took both of them for 100 to 350 ms, in which no push gets on. By itself it is done after 30 to 70 ms.
type collector struct {
	heap    func() heap
	collect func()
	mu      sync.Mutex
}

// heap are bytes: in use and not swept yet, of when the next collection is to be over, and that the last one has left.
type heap struct{ used, goal, left uint64 }

// due tells whether a collection is near, and has something to do: with a memory limit (GOMEMLIMIT) it may be near all the time.
func (h heap) due() bool { return h.used >= h.goal/10*9 && h.used >= h.left/2*3 }

func newCollector() *collector {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/goal:bytes"}, {Name: "/gc/heap/live:bytes"}}
	return &collector{collect: runtime.GC, heap: func() heap {
		metrics.Read(samples)
		return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()}
	}}
}

// beforehand collects if that is due. Who comes meanwhile waits until it is done.
func (c *collector) beforehand() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heap().due() {
		c.collect()
	}
}
