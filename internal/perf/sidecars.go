package perf

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// proxy is one of the fleet.
type proxy struct {
	pod  load.Pod
	stop func()
	// since it wants to be in sync, and is not yet; zero if it is. Guarded by the lock of its sidecars.
	since time.Time
}

// sidecars are those that there are, and which of them are waited for. They are safe for concurrent use.
type sidecars struct {
	mu      sync.Mutex
	byPlace map[int]*proxy
	byPod   map[string]*proxy
	waiting int
	ready   *measure.Distribution
	changed chan struct{} // latest-value: fewer are waited for
}

func newSidecars() *sidecars {
	return &sidecars{byPlace: map[int]*proxy{}, byPod: map[string]*proxy{}, ready: measure.NewDistribution(), changed: make(chan struct{}, 1)}
}

// start lets the proxy of a pod connect.
func (b *bench) start(place int, pod load.Pod) {
	if !pod.Router { // what gateways see of changes depends on their routes
		b.tracker.join(pod.Name, pod.Namespace)
	}
	s, all := &proxy{pod: pod, since: time.Now()}, b.sidecars
	all.mu.Lock()
	all.byPlace[place], all.byPod[pod.Name] = s, s
	all.waiting++
	all.mu.Unlock()
	s.stop = b.fleet.Start(pod)
}

// stop lets the proxy at a place go, which the tracker waits for no more.
func (b *bench) stop(place int) {
	all := b.sidecars
	all.mu.Lock()
	s := all.byPlace[place]
	delete(all.byPlace, place)
	delete(all.byPod, s.pod.Name)
	all.settle(s)
	all.mu.Unlock()
	s.stop()
}

// settle ends the wait for a sidecar, under the lock.
func (a *sidecars) settle(s *proxy) {
	if s.since.IsZero() {
		return
	}
	s.since = time.Time{}
	a.waiting--
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// synced is called by the fleet. Only the first time counts: afterwards a sidecar that is sent something new may ask for more.
func (a *sidecars) synced(pod string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.byPod[pod]; s != nil && !s.since.IsZero() {
		a.ready.Add(at.Sub(s.since))
		a.settle(s)
	}
}

// waitAgain waits for all once more, from now on.
func (a *sidecars) waitAgain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for _, s := range a.byPod {
		s.since = now
	}
	a.waiting = len(a.byPod)
}

// places are those of all that there are, in order.
func (a *sidecars) places() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.byPlace))
}

// there is how many are in sync.
func (a *sidecars) there() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byPod) - a.waiting
}

// takeReady are the times to be in sync since the last call; nil if there are none.
func (a *sidecars) takeReady() *measure.Summary {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.ready
	a.ready = measure.NewDistribution()
	if d.Count() == 0 {
		return nil
	}
	return d.Summary()
}

// awaitSync waits until all are in sync that there should be.
func (b *bench) awaitSync(ctx context.Context, stage string) error {
	return b.await(ctx, stage, b.sidecars.changed, b.wanted, b.sidecars.there)
}

// connect lets sidecars connect until there are so many, gateways after all sidecars, at the rate of the options.
func (b *bench) connect(ctx context.Context, p *Phase, until int) error {
	from := b.wanted
	b.wanted = until
	began := time.Now()
	starting, cancel := context.WithCancel(ctx)
	started := make(chan struct{})
	go func() {
		defer close(started)
		pace := newPace(b.o.ConnectRate)
		defer pace.stop()
		for n := from; n < until; n++ {
			if pace.wait(starting) != nil {
				return
			}
			place := n
			if n >= b.o.Sidecars {
				place += b.o.Mesh.FirstRouter() - b.o.Sidecars
			}
			b.start(place, b.pods.Pod(place))
		}
	}()
	err := b.awaitSync(ctx, "connecting")
	cancel()
	<-started
	p.Time = Seconds(time.Since(began))
	p.Ready = b.sidecars.takeReady()
	return err
}

// pace lets something happen so many times a second, and catches up when it was late.
type pace struct {
	every time.Duration
	next  time.Time
	timer *time.Timer
}

// newPace returns a pace; a rate of 0 stands for as fast as may be.
func newPace(rate float64) *pace {
	p := &pace{next: time.Now(), timer: time.NewTimer(0)}
	if rate > 0 {
		p.every = time.Duration(float64(time.Second) / rate)
	}
	return p
}

func (p *pace) wait(ctx context.Context) error {
	at := p.next
	p.next = p.next.Add(p.every)
	if d := time.Until(at); d > 0 {
		p.timer.Reset(d)
		select {
		case <-p.timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func (p *pace) stop() { p.timer.Stop() }
