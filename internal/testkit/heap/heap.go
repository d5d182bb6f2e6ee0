// Package heap measures how much memory a test's process has in use, for tests that say what
// something may cost.
//
// It imports nothing of Lateen, and only tests import it.
package heap

import "runtime"

// calm is how many collections in a row must find nothing more.
const calm = 3

// noise is how many bytes come and go by themselves.
const noise = 4096

// Use is what is in use, in bytes: the heap as far as it can be reached, and stacks.
type Use struct{ Heap, Stacks int64 }

// InUse collects garbage until nothing more goes. What cleanups make unreachable
// (runtime.AddCleanup), as entries of weak tables, goes only once they have run, which they do by
// themselves after a collection, on a busy machine some time after; so the next one waits for a
// cleanup of its own that comes behind them.
func InUse() Use {
	var m runtime.MemStats
	least, same := int64(-1), 0
	for {
		ran := make(chan struct{})
		runtime.AddCleanup(&struct{ at [16]byte }{}, func(ran chan struct{}) { close(ran) }, ran)
		runtime.GC()
		<-ran
		runtime.ReadMemStats(&m)
		now := int64(m.HeapAlloc)
		if least >= 0 && now+noise > least {
			same++
		} else {
			same = 0
		}
		if least < 0 || now < least {
			least = now
		}
		if same >= calm {
			return Use{least, int64(m.StackInuse)}
		}
	}
}
