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

// proxy is one proxy of the fleet.
type proxy struct {
	pod  load.Pod
	stop func()
	// since is when the wait for its sync began. It is zero once the proxy is in sync. The lock of
	// sidecars guards it.
	since time.Time
}

// sidecars keeps the running proxies, and which of them are not in sync yet. It is safe for
// concurrent use.
type sidecars struct {
	mu      sync.Mutex
	byPlace map[int]*proxy
	byPod   map[string]*proxy
	waiting int
	ready   *measure.Distribution
	changed chan struct{} // latest-value: waiting has decreased
}

func newSidecars() *sidecars {
	return &sidecars{
		byPlace: map[int]*proxy{},
		byPod:   map[string]*proxy{},
		ready:   measure.NewDistribution(),
		changed: make(chan struct{}, 1),
	}
}

// start connects the proxy of a pod.
func (b *testbed) start(place int, pod load.Pod) {
	if !pod.Router { // which changes gateways see depends on their routes
		b.tracker.join(pod.Name, pod.Namespace)
	}
	s, all := &proxy{pod: pod, since: time.Now()}, b.sidecars
	all.mu.Lock()
	all.byPlace[place], all.byPod[pod.Name] = s, s
	all.waiting++
	all.mu.Unlock()
	s.stop = b.fleet.Start(pod)
}

// stop stops the proxy at a place. The tracker no longer waits for it.
func (b *testbed) stop(place int) {
	all := b.sidecars
	all.mu.Lock()
	s := all.byPlace[place]
	delete(all.byPlace, place)
	delete(all.byPod, s.pod.Name)
	all.stopWaitingFor(s)
	all.mu.Unlock()
	s.stop()
}

// stopWaitingFor ends the wait for a proxy. The caller holds mu.
func (a *sidecars) stopWaitingFor(s *proxy) {
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

// synced is called by the fleet. Only the first call for a wait counts: a sidecar that receives
// something new may ask for more later.
func (a *sidecars) synced(pod string, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.byPod[pod]; s != nil && !s.since.IsZero() {
		a.ready.Add(at.Sub(s.since))
		a.stopWaitingFor(s)
	}
}

// restartWait waits for all proxies once more, from now on.
func (a *sidecars) restartWait() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for _, s := range a.byPod {
		s.since = now
	}
	a.waiting = len(a.byPod)
}

// places returns the places of all running proxies, in order.
func (a *sidecars) places() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.byPlace))
}

// numSynced returns how many are in sync.
func (a *sidecars) numSynced() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byPod) - a.waiting
}

// takeReady returns the times to sync since the last call, or nil if there are none.
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

// awaitSync waits until all wanted sidecars are in sync.
func (b *testbed) awaitSync(ctx context.Context, stage string) error {
	return b.await(ctx, stage, b.sidecars.changed, b.numWanted, b.sidecars.numSynced)
}

// connect connects sidecars, and after all sidecars gateways, at Options.ConnectRate until there
// are so many.
func (b *testbed) connect(ctx context.Context, p *Phase, until int) error {
	from := b.numWanted
	b.numWanted = until
	began := time.Now()
	starting, cancel := context.WithCancel(ctx)
	started := make(chan struct{})
	go func() {
		defer close(started)
		pace := newPacer(b.o.ConnectRate)
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

// pacer limits a loop to a rate. It catches up after a delay.
type pacer struct {
	every time.Duration
	next  time.Time
	timer *time.Timer
}

// newPacer returns a pacer. A rate of 0 is unlimited.
func newPacer(rate float64) *pacer {
	p := &pacer{next: time.Now(), timer: time.NewTimer(0)}
	if rate > 0 {
		p.every = time.Duration(float64(time.Second) / rate)
	}
	return p
}

func (p *pacer) wait(ctx context.Context) error {
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

func (p *pacer) stop() { p.timer.Stop() }
