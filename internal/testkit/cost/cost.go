// Package cost bounds what a test may spend on one input, as fuzz targets need it: an input that
// makes a program allocate gigabytes or compute for hours is a find, like one that makes it panic.
package cost

import (
	"fmt"
	"runtime/metrics"
	"syscall"
	"testing"
	"time"
)

// maxCPU is the time of processors that one input may take. It is generous: the race detector and
// coverage slow a program down, and collecting garbage counts. What is found takes hours.
const maxCPU = 20 * time.Second

// Bound begins to measure. The function that it returns ends that, and fails the test if more than
// a number of bytes were allocated meanwhile, counting what was freed. What takes longer than 20 s
// of processors ends the process by a panic, because nothing else ends it. Other goroutines of the
// process count too.
func Bound(t testing.TB, bytes uint64) (done func()) {
	t.Helper()
	before, began := allocated(), processors()
	watch := time.NewTicker(time.Second)
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-watch.C:
			}
			if took := processors() - began; took > maxCPU {
				panic(fmt.Sprintf("an input has taken %s of processors, and goes on", took))
			}
		}
	}()
	return func() {
		t.Helper()
		watch.Stop()
		close(ended)
		if spent := allocated() - before; spent > bytes {
			t.Fatalf("an input has allocated %d bytes; want at most %d", spent, bytes)
		}
	}
}

func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func processors() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
