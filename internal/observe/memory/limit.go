package memory

import (
	"io/fs"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// Shares of the limit.
const (
	// share of the cgroup's limit is the runtime's: the rest is for what the runtime does not know
	// of, as the kernel's sockets.
	share = 0.9
	// tightFrom is how much of the runtime's limit may be in use for good: the rest is room for the
	// collector to work in.
	tightFrom = 0.9
)

// Limit is the Go runtime's memory limit.
type Limit struct {
	// Bytes of all memory that the runtime has from the system (GOMEMLIMIT).
	Bytes int64
	// From says who set it: "GOMEMLIMIT" or "cgroup".
	From string

	mu        sync.Mutex
	samples   []metrics.Sample
	collected time.Time
}

// Honour finds the limit, and sets it where the runtime does not know it yet; nil if there is none.
// files is the root of the file system, lookup the environment's.
func Honour(files fs.FS, lookup func(string) (string, bool)) *Limit {
	if _, ok := lookup("GOMEMLIMIT"); ok {
		if n := debug.SetMemoryLimit(-1); n < math.MaxInt64 {
			return newLimit(n, "GOMEMLIMIT")
		}
		return nil // "off" is an answer too
	}
	n, ok := cgroupLimit(files)
	if !ok {
		return nil
	}
	l := newLimit(int64(share*float64(n)), "cgroup")
	debug.SetMemoryLimit(l.Bytes)
	return l
}

func newLimit(bytes int64, from string) *Limit {
	l := &Limit{Bytes: bytes, From: from}
	for _, name := range sampled {
		l.samples = append(l.samples, metrics.Sample{Name: name})
	}
	return l
}

// What is read of the runtime, in this order.
const (
	total = iota
	released
	objects
	unused
	free
	live
)

var sampled = [...]string{
	total:    "/memory/classes/total:bytes",
	released: "/memory/classes/heap/released:bytes",
	objects:  "/memory/classes/heap/objects:bytes",
	unused:   "/memory/classes/heap/unused:bytes",
	free:     "/memory/classes/heap/free:bytes",
	live:     "/gc/heap/live:bytes",
}

// collectAfter is how old a collection may be that says that memory is tight: while nobody is let
// in nobody allocates, and none would come by itself.
const collectAfter = time.Second

// Tight tells whether so much is in use that collecting garbage makes no room: the heap that the
// last collection has found to be live, and what is not heap, as stacks. It is safe for concurrent
// use.
func (l *Limit) Tight() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.tight() {
		return false
	}
	if time.Since(l.collected) < collectAfter {
		return true
	}
	runtime.GC()
	l.collected = time.Now()
	return l.tight()
}

func (l *Limit) tight() bool {
	metrics.Read(l.samples)
	of := func(i int) float64 { return float64(l.samples[i].Value.Uint64()) }
	outside := of(total) - of(released) - of(objects) - of(unused) - of(free)
	return of(live)+outside > tightFrom*float64(l.Bytes)
}
