package serve

import (
	"context"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// entrance has a fleet that comes at once begin one after the other: who is there is brought up before others are let in. All would be
// there at the same time either way, but those who begin hold much more than those who wait and those who have all: requests with thousands
// of names, and megabytes in the kernel. So newcomers wait while much is under way: first answers of a type that were sent and not answered
// yet. They wait for pushes that are under way, too: those have a fleet waiting for them, and take less. Those who are next wait in the hall with their first request, which a sidecar that comes back fills with the names and versions of all
// that it has. The others wait outside: their requests are not read, so that HTTP/2's flow control leaves most of them with the clients.
//
// That is for a control plane that has more to do than it can. Where it is the clients that take their time, nobody is to wait for them. The
// server cannot tell the two apart, so the wait is short: who is next goes when it is over, and a fleet comes in at some pace whatever those do
// that are in. Likewise whoever does not say in that time what it wants makes room in the hall.
//
// As many newcomers are answered at a time as there are CPUs; the others wait in the order in which they came. They are goroutines of
// streams, so as many as there are streams at most.
type entrance struct {
	hall     turns
	door     turns
	most     int // bytes that may be under way
	patience time.Duration
	courtesy *courtesy

	mu    sync.Mutex
	bytes int
	roomy chan struct{} // closed when there is room; nil while nobody waits for that
}

const (
	// underwayBytes are, for each CPU, what it sends in less than 10 ms.
	underwayBytes = 2 << 20
	// newcomerPatience is how long the next one waits for room: so for each CPU 100 are let in each second at least.
	newcomerPatience = 10 * time.Millisecond
	// hallPlaces are, for each one at the door, so many that whoever is silent for that long delays fewer than are admitted. To read a request
	// that is larger than a window takes a round trip.
	hallPlaces = 16
)

func newEntrance(c *courtesy) *entrance {
	door := newTurns()
	return &entrance{hall: make(turns, hallPlaces*cap(door)), door: door, most: cap(door) * underwayBytes, patience: newcomerPatience, courtesy: c}
}

// enter waits until a newcomer may be answered; leave is to be called when it was. With the end of ctx it returns its error.
func (e *entrance) enter(ctx context.Context) error {
	if err := e.door.take(ctx); err != nil {
		return err
	}
	pause(ctx, e.courtesy.newcomer(time.Now()))
	if err := e.waitFor(ctx, e.courtesy.pushes.Calm(), e.wait()); err != nil {
		e.leave()
		return err
	}
	return nil
}

// waitFor waits for all of these, for as long as a newcomer's patience lasts. With the end of ctx it returns its error.
func (e *entrance) waitFor(ctx context.Context, all ...<-chan struct{}) error {
	var enough *time.Timer
	for _, one := range all {
		if one == nil {
			continue
		}
		if enough == nil {
			enough = time.NewTimer(e.patience)
			defer enough.Stop()
		}
		select {
		case <-one:
		case <-enough.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (e *entrance) leave() { e.door.give() }

// wait returns what to wait for; nothing if there is room.
func (e *entrance) wait() (roomy <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bytes < e.most {
		return nil
	}
	if e.roomy == nil {
		e.roomy = make(chan struct{})
	}
	return e.roomy
}

// underway is how many bytes of its first answers a stream was sent and has not answered. It is that of who drives the stream.
type underway int

// sent counts bytes of a first answer.
func (e *entrance) sent(u *underway, bytes int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes += bytes
	*u += underway(bytes)
}

// arrived notes that a stream has answered, or ended.
func (e *entrance) arrived(u *underway) {
	if *u == 0 {
		return // nearly all answers are to pushes, of all streams at the same time
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes -= int(*u)
	*u = 0
	if e.roomy != nil && e.bytes < e.most {
		close(e.roomy)
		e.roomy = nil
	}
}

// types is a set of types, one bit for each; those that are not served share one.
type types uint16

// add tells whether the type is new in it.
func (s *types) add(t resource.Type) bool {
	before := *s
	*s |= 1 << t
	return *s != before
}
