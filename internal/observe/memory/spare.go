package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// percent is how much garbage there may be, of what is in use: half of what Go allows, because
	// memory is what a mesh runs out of first, and collecting takes little CPU.
	percent = 50
	// least is how much there may be in any case, in bytes. In a small mesh half of what is in use
	// is soon there, and each collection delays what is pushed meanwhile: amid a storm of changes
	// that was one in thirty pushes.
	least = 48 << 20
)

// Spare lets garbage take half of what is in use, and 48 MiB at least, unless GOGC says how much.
// lookup is the environment's.
func Spare(lookup func(string) (string, bool)) (stop func()) {
	if _, ok := lookup("GOGC"); ok {
		return func() {}
	}
	s := newSparing()
	s.adjust()
	s.watch()
	return func() { s.stopped.Store(true) }
}

// sparing sets the runtime's percentage anew after each collection.
type sparing struct {
	samples []metrics.Sample
	set     int
	stopped atomic.Bool
}

// newSparing returns one that reads what the runtime takes its percentage of: what the last
// collection has left, and what it went through.
func newSparing() *sparing {
	return &sparing{samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}}
}

// watched is garbage from the beginning: that it goes tells that there was a collection.
type watched struct{ _ *sparing }

// watch adjusts after the next collection, and so on.
func (s *sparing) watch() {
	runtime.AddCleanup(&watched{}, func(s *sparing) {
		if !s.stopped.Load() {
			s.adjust()
			s.watch()
		}
	}, s)
}

// adjust sets the percentage, unless it is nearly that: to set it stops the process for a moment.
func (s *sparing) adjust() {
	metrics.Read(s.samples)
	inUse := uint64(0)
	for _, sample := range s.samples {
		inUse += sample.Value.Uint64()
	}
	if p := percentOf(inUse); p*10 < s.set*9 || p*10 > s.set*11 {
		debug.SetGCPercent(p)
		s.set = p
	}
}

// percentOf is how much garbage there may be, of so many bytes in use.
func percentOf(inUse uint64) int {
	return max(percent, int(least*100/max(inUse, 1<<20)))
}
