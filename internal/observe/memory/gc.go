package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// minPercent is how much garbage there may be, in percent of what is in use. It is half of Go's
	// default, because a mesh runs out of memory first, and collecting takes little CPU.
	minPercent = 50
	// minGarbage is how many bytes of garbage there may always be. In a small mesh half of what is
	// in use is reached soon, and each collection delays the pushes meanwhile: one in thirty under
	// many changes.
	minGarbage = 48 << 20
)

// TuneGC lets garbage take half of what is in use, and at least 48 MiB. If GOGC is set it does
// nothing. lookup reads the environment.
func TuneGC(lookup func(string) (string, bool)) (stop func()) {
	if _, ok := lookup("GOGC"); ok {
		return func() {}
	}
	s := newGCTuner()
	s.adjust()
	s.watch()
	return func() { s.stopped.Store(true) }
}

// gcTuner sets the runtime's percentage again after each collection.
type gcTuner struct {
	samples []metrics.Sample
	set     int
	stopped atomic.Bool
}

// newGCTuner returns a tuner that reads what the percentage relates to: the heap that the last
// collection left, stacks and globals.
func newGCTuner() *gcTuner {
	return &gcTuner{samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}}
}

// sentinel is garbage from its creation. Its cleanup shows that there was a collection.
type sentinel struct{ _ *gcTuner }

// watch adjusts after the next collection, and watches again.
func (s *gcTuner) watch() {
	runtime.AddCleanup(&sentinel{}, func(s *gcTuner) {
		if !s.stopped.Load() {
			s.adjust()
			s.watch()
		}
	}, s)
}

// adjust sets the percentage if it differs by more than a tenth. Setting it stops the process for a
// moment.
func (s *gcTuner) adjust() {
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

// percentOf returns how much garbage there may be, in percent of inUse bytes.
func percentOf(inUse uint64) int {
	return max(minPercent, int(minGarbage*100/max(inUse, 1<<20)))
}
