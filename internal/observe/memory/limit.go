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
	// cgroupShare is the runtime's share of the cgroup's limit. The rest is for memory that the
	// runtime does not know of, such as the kernel's sockets.
	cgroupShare = 0.9
	// tightShare is the share of the runtime's limit above which memory is tight. The collector
	// needs the rest to work.
	tightShare = 0.9
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

// ApplyLimit finds the memory limit and sets it in the runtime if GOMEMLIMIT has not. It returns
// nil if there is none. files is the root of the file system, lookup reads the environment.
func ApplyLimit(files fs.FS, lookup func(string) (string, bool)) *Limit {
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
	l := newLimit(int64(cgroupShare*float64(n)), "cgroup")
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

// The samples that are read from the runtime, in this order.
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

// minCollectInterval is how old the last collection may be when it says that memory is tight. While
// no stream is admitted nothing is allocated, so that no collection would start by itself.
const minCollectInterval = time.Second

// Tight reports whether so much memory is in use that collecting garbage makes no room. It counts
// the heap that the last collection found live, and what is not heap, such as stacks. It is safe
// for concurrent use.
func (l *Limit) Tight() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.overTightShare() {
		return false
	}
	if time.Since(l.collected) < minCollectInterval {
		return true
	}
	runtime.GC()
	l.collected = time.Now()
	return l.overTightShare()
}

func (l *Limit) overTightShare() bool {
	metrics.Read(l.samples)
	of := func(i int) float64 { return float64(l.samples[i].Value.Uint64()) }
	outside := of(total) - of(released) - of(objects) - of(unused) - of(free)
	return of(live)+outside > tightShare*float64(l.Bytes)
}
