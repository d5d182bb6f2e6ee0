package serve

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/view"
)

// entrance has a fleet that comes at once begin one after the other: who is there is brought up before others are let in. All would be
// there at the same time either way, but those who begin hold much more than those who wait and those who have all: requests with thousands
// of names, and megabytes in the kernel. So newcomers wait, with their first request, while much is under way: first answers of a type that
// were sent and not answered yet.
//
// That is for a control plane that has more to do than it can. Where it is the clients that take their time, nobody is to wait: what is not
// answered within underwayFor counts no more, and as much more may be under way from then on. What is answered in time takes that back.
//
// As many newcomers are answered at a time as there are CPUs; the others wait in the order in which they came. They are goroutines of
// streams, so as many as there are streams at most.
type entrance struct {
	door        chan struct{}
	least, most int // of limit

	mu          sync.Mutex
	limit       int // of bytes
	bytes       int
	first, last *underway     // ordered by since
	roomy       chan struct{} // closed when something has arrived; nil while nobody waits for that
}

const (
	// underwayBytes are, for each CPU, what it sends in some 30 ms.
	underwayBytes = 8 << 20
	// underwayMore is how many times that may be under way where clients are slow: what a CPU sends in underwayFor.
	underwayMore = 16
	// underwayFor is longer than clients take to answer that have a CPU at hand.
	underwayFor = 400 * time.Millisecond
	// paidBack is the share of what is answered in time by which the limit falls: so it stays up where a fifth of the clients is slow.
	paidBack = 4
)

// underway is what a stream was sent of its first answers and has not answered. Guarded by entrance.mu.
type underway struct {
	bytes      int // 0: it is not in the list
	since      time.Time
	prev, next *underway
}

func newEntrance() *entrance {
	cpus := runtime.GOMAXPROCS(0)
	least := cpus * underwayBytes
	return &entrance{door: make(chan struct{}, cpus), least: least, most: underwayMore * least, limit: least}
}

// enter waits until a newcomer may be answered; leave is to be called when it was. With the end of ctx it returns its error.
func (e *entrance) enter(ctx context.Context, now func() time.Time) error {
	select {
	case e.door <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		roomy, until := e.wait(now())
		if roomy == nil {
			return nil
		}
		overdue := time.NewTimer(until)
		select {
		case <-roomy:
		case <-overdue.C:
		case <-ctx.Done():
			overdue.Stop()
			e.leave()
			return context.Cause(ctx)
		}
		overdue.Stop()
	}
}

func (e *entrance) leave() { <-e.door }

// wait returns what to wait for, and for how long at most; nothing if there is room.
func (e *entrance) wait(now time.Time) (roomy <-chan struct{}, until time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.first != nil && now.Sub(e.first.since) >= underwayFor {
		e.limit = min(e.limit+e.first.bytes, e.most)
		e.remove(e.first)
	}
	if e.bytes < e.limit {
		return nil, 0
	}
	if e.roomy == nil {
		e.roomy = make(chan struct{})
	}
	return e.roomy, underwayFor - now.Sub(e.first.since)
}

// sent counts bytes of a first answer.
func (e *entrance) sent(u *underway, bytes int, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes += bytes
	if u.bytes += bytes; u.bytes > bytes || bytes == 0 {
		return
	}
	u.since, u.prev, u.next = now, e.last, nil
	if e.last == nil {
		e.first = u
	} else {
		e.last.next = u
	}
	e.last = u
}

// arrived notes that a stream has answered, or ended.
func (e *entrance) arrived(u *underway) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if u.bytes > 0 {
		e.limit = max(e.limit-u.bytes/paidBack, e.least)
		e.remove(u)
	}
}

func (e *entrance) remove(u *underway) {
	if u.prev == nil {
		e.first = u.next
	} else {
		u.prev.next = u.next
	}
	if u.next == nil {
		e.last = u.prev
	} else {
		u.next.prev = u.prev
	}
	e.bytes -= u.bytes
	*u = underway{}
	if e.roomy != nil {
		close(e.roomy)
		e.roomy = nil
	}
}

// types is a set of types, one bit for each; those that are not served share one.
type types uint16

// add tells whether the type is new in it.
func (s *types) add(t view.Type) bool {
	before := *s
	*s |= 1 << t
	return *s != before
}
