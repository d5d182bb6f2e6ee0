package schedule

import (
	"sync/atomic"
	"time"
)

// deliveryPace tracks how fast generations reach the proxies, and lets changed endpoints leave at
// that pace. In a large mesh endpoints change all the time, so a quiet period would always last for
// the maximum. Endpoints need no other change beside them, so they can leave alone.
type deliveryPace struct {
	generation  uint64        // the latest one that was published
	publishedAt time.Time     // when it was
	progressAt  time.Time     // when it last reached more proxies
	delivered   bool          // it has reached nearly all proxies
	duration    time.Duration // how long that took
	// restedAt is when endpoints have waited for each delivered generation as long again as it
	// took: pushing takes half of the time then.
	restedAt time.Time
}

const (
	// longestWait is the longest that endpoints wait for a generation on its way. One that comes
	// after it takes its place wherever it has not arrived, so that proxies, however many, do not
	// queue for more than one.
	longestWait = 1500 * time.Millisecond
	// stuckAfter is how long a generation reaches nobody else before the proxies that do not have
	// it are taken to be stuck.
	stuckAfter = 500 * time.Millisecond
	// restAllowance is how much of the rest may be left for later: what a single generation takes
	// longer than others delays none after it.
	restAllowance = 250 * time.Millisecond
)

func (p *deliveryPace) published(generation uint64, now time.Time) {
	p.generation, p.publishedAt, p.progressAt, p.delivered = generation, now, now, false
}

// progressed notes the latest generations that more proxies have, and that nearly all have.
func (p *deliveryPace) progressed(more, nearlyAll uint64, now time.Time) {
	if more >= p.generation {
		p.progressAt = now
	}
	if !p.delivered && nearlyAll >= p.generation {
		p.delivered, p.duration = true, now.Sub(p.publishedAt)
		p.restedAt = earlier(later(p.restedAt, p.publishedAt).Add(2*p.duration), now.Add(restAllowance+longestWait))
	}
}

// next is the earliest that endpoints may follow the latest generation: when that is delivered, and
// when pushing has taken half of the time at most, but for the allowance. The other half is for
// proxies that come and for what they ask for. least is the least time between two generations.
func (p *deliveryPace) next(least time.Duration) time.Time {
	latest := p.publishedAt.Add(longestWait)
	if !p.delivered {
		return earlier(p.progressAt.Add(stuckAfter), latest)
	}
	return earlier(later(p.publishedAt.Add(max(least, p.duration)), p.restedAt.Add(-restAllowance)), latest)
}

// Delivery is how far a generation has come.
type Delivery struct {
	Generation uint64
	NearlyAll  bool // nearly all proxies that it concerns have it
	// Proxy is what it took of the main thread of the proxy that had most to do, estimated. It is
	// read with NearlyAll.
	Proxy time.Duration
}

// deliveryReports is the progress of generations, as other goroutines report it.
type deliveryReports struct {
	reachedMore atomic.Uint64 // the latest generation that reached more proxies since the last look
	nearlyAll   atomic.Uint64 // the latest that nearly all have
	proxyBusy   atomic.Int64  // what those that nearly all have since took of a proxy's main thread, in ns
	notify      chan struct{} // holds one while the loop has not looked
}

func newDeliveryReports() deliveryReports { return deliveryReports{notify: make(chan struct{}, 1)} }

func (r *deliveryReports) report(d Delivery) {
	storeMax(&r.reachedMore, d.Generation)
	if d.NearlyAll {
		storeMax(&r.nearlyAll, d.Generation)
		r.proxyBusy.Add(int64(d.Proxy))
	}
	select {
	case r.notify <- struct{}{}:
	default: // the loop has yet to look
	}
}

func storeMax(known *atomic.Uint64, to uint64) {
	for was := known.Load(); was < to; was = known.Load() {
		if known.CompareAndSwap(was, to) {
			return
		}
	}
}
