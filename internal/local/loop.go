package local

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// loop owns all state of a runtime. Each round takes an event or reports, plans what follows,
// publishes that, and only then lets workers act. So a pod is known before its Envoy connects, and
// leaves the endpoints before it drains.
type loop struct {
	runtime *Runtime
	opts    Options
	sink    source.Sink
	spawner *spawner
	workers sync.WaitGroup

	events  chan source.Event // unbuffered: the upstream waits until an event was taken
	reports chan report       // unbuffered: a worker waits until its report was taken

	in           *inputs
	synced       bool
	pods         map[source.Key]*pod
	addresses    *allocator
	balancers    *balancers
	controlPlane *controlPlaneRecord // nil: there is none
	published    map[source.Key]metav1.Object
	problems     map[string][]source.Problem // by report origin
	wake         time.Time                   // when to look again though nothing happened; zero: never
}

func newLoop(ctx context.Context, r *Runtime, sink source.Sink, s *spawner) *loop {
	l := &loop{
		runtime:   r,
		opts:      r.opts,
		sink:      sink,
		spawner:   s,
		events:    make(chan source.Event),
		reports:   make(chan report),
		in:        newInputs(),
		pods:      map[source.Key]*pod{},
		addresses: newAllocator(r.opts.CoolDown),
		balancers: newBalancers(ctx, r.opts.FreePorts),
		published: map[source.Key]metav1.Object{},
		problems:  map[string][]source.Problem{},
	}
	if r.opts.ControlPlane != nil {
		l.controlPlane = newControlPlaneRecord(r.opts, s)
		l.workers.Go(func() { l.controlPlane.run(ctx, l.reports) })
	}
	return l
}

// run returns when the context has ended, and all workers with it.
func (l *loop) run(ctx context.Context) {
	defer l.addresses.close()
	defer l.balancers.wait()
	defer l.workers.Wait()
	for {
		timer := time.NewTimer(l.untilWake())
		var out source.Event
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case e := <-l.events:
			out = l.passThrough(e)
		case r := <-l.reports:
			l.handleReport(r)
			l.drainReports()
		case <-timer.C:
		}
		timer.Stop()
		l.round(ctx, out)
	}
}

func (l *loop) untilWake() time.Duration {
	if l.wake.IsZero() {
		return time.Hour
	}
	return max(0, time.Until(l.wake))
}

// passThrough takes an event, and returns the part of it that is published unchanged.
func (l *loop) passThrough(e source.Event) source.Event {
	out := source.Event{Reports: slices.Clone(e.Reports), Moved: e.Moved, Synced: e.Synced}
	for _, p := range e.Moved {
		l.in.move(p)
	}
	for _, c := range l.in.gateways.expand(e.Changes) {
		if !l.in.apply(c) {
			out.Changes = append(out.Changes, c)
		}
	}
	l.synced = l.synced || e.Synced
	return out
}

// drainReports takes the reports that wait already, so that they make one event.
func (l *loop) drainReports() {
	for {
		select {
		case r := <-l.reports:
			l.handleReport(r)
		default:
			return
		}
	}
}

func (l *loop) handleReport(r report) {
	if l.controlPlane != nil && r.pod == "" {
		l.controlPlane.handleReport(r, l.notify)
		return
	}
	p := l.byUID(r.pod)
	if p == nil {
		return // its end was reported already
	}
	wasReady := p.isReady()
	if n, tell := p.handleReport(r); tell {
		l.notify(n)
	}
	switch isReady := p.isReady(); {
	case isReady && !wasReady:
		p.readySince, p.served = time.Now(), true
		l.notify(Notice{Pod: p.name(), Text: "ready at " + p.addrs.Pod.String()})
	case wasReady && !isReady:
		p.readySince = time.Time{}
		if r.kind == processUnready {
			l.notify(Notice{Pod: p.name(), Container: r.container, Bad: true, Text: "not ready: " + r.text})
		}
	}
	if p.ended {
		l.remove(p)
	}
}

// byUID finds a pod by its UID: a late report must not reach a successor of the same name.
func (l *loop) byUID(uid types.UID) *pod {
	for _, p := range l.pods {
		if p.object.UID == uid {
			return p
		}
	}
	return nil
}

func (l *loop) notify(n Notice) {
	n.Time = time.Now()
	l.opts.Notify(n)
}

// round plans, publishes, and lets workers act.
func (l *loop) round(ctx context.Context, out source.Event) {
	now := time.Now()
	l.wake = time.Time{}
	leaving := l.plan(now)
	starting := l.prepare(now)
	l.addObjects(&out, now)
	l.addProblems(&out)
	if len(out.Changes) > 0 || len(out.Moved) > 0 || len(out.Reports) > 0 || out.Synced {
		l.sink(out)
	}
	for _, p := range starting {
		l.startWorker(ctx, p)
	}
	for _, p := range leaving {
		l.terminate(p)
	}
	l.watchPorts()
	l.runtime.publish(l.snapshot(now))
}

func (l *loop) sortedPods() []*pod {
	return slices.SortedFunc(maps.Values(l.pods), func(a, b *pod) int { return a.key().Compare(b.key()) })
}

// remove forgets a pod that has ended, and releases what it had.
func (l *loop) remove(p *pod) {
	delete(l.pods, p.key())
	if p.started {
		l.opts.Tokens.revoke(p.token)
		l.addresses.release(p.addrs, time.Now())
		p.worker.removeBootstrap()
	}
}

// terminate ends a pod in order. One that never started is removed at once.
func (l *loop) terminate(p *pod) {
	if !p.started {
		l.remove(p)
		l.wakeAt(time.Now()) // its objects are withdrawn in the next round
		return
	}
	l.notify(Notice{Pod: p.name(), Text: "leaving"})
	p.worker.terminate <- p.served && !p.completed() // whether others may still call it
}

func (l *loop) wakeAt(t time.Time) {
	if l.wake.IsZero() || t.Before(l.wake) {
		l.wake = t
	}
}

// closed returns the ports that services use and at which the pod's Envoy does not listen yet.
func (l *loop) closed(p *pod, now time.Time) []int32 {
	wanted := targetPorts(l.in.services[p.object.Namespace], p.object)
	p.want(wanted, now)
	closed, until := p.closedPorts(wanted, l.opts.ListenWait, now)
	if len(closed) > 0 {
		l.wakeAt(until)
	}
	return closed
}

// watchPorts tells each Envoy's worker which ports to watch: those that services use and that have
// not opened yet.
func (l *loop) watchPorts() {
	for _, p := range l.pods {
		if p.started && p.role != roleBare && p.terminating == nil {
			p.worker.want(p.notYetOpen(targetPorts(l.in.services[p.object.Namespace], p.object)))
		}
	}
}

// addObjects adds the runtime's own objects that have changed.
func (l *loop) addObjects(out *source.Event, now time.Time) {
	objects := map[source.Key]metav1.Object{}
	backends := map[string][]backend{} // by namespace
	for _, p := range l.sortedPods() {
		object := p.published()
		objects[p.key()] = object
		backends[object.Namespace] = append(backends[object.Namespace], backend{
			pod: object, ready: p.isReady(), terminating: p.terminating != nil, closed: l.closed(p, now),
		})
	}
	l.in.eachService(func(s *corev1.Service) {
		for _, slice := range endpointSlices(s, backends[s.Namespace]) {
			objects[source.Key{Kind: kinds.EndpointSlice, Namespace: slice.Namespace, Name: slice.Name}] = slice
		}
	})
	l.eachPodName(func(e *networkingv1.ServiceEntry) {
		objects[source.Key{Kind: kinds.ServiceEntry, Namespace: e.Namespace, Name: e.Name}] = e
	})
	for _, key := range slices.SortedFunc(maps.Keys(objects), source.Key.Compare) {
		if !isSame(l.published[key], objects[key]) {
			out.Changes = append(out.Changes, source.Change{
				Key:        key,
				Object:     objects[key],
				Origin:     l.origin(key),
				ObservedAt: now,
			})
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(l.published), source.Key.Compare) {
		if objects[key] == nil {
			out.Changes = append(out.Changes, source.Change{Key: key, ObservedAt: now})
		}
	}
	l.published = objects
	l.syncBalancers(backends)
}

// isSame reports whether an object need not be published again. ServiceEntries are messages, which
// are not compared by their fields.
func isSame(was, is metav1.Object) bool {
	if e, ok := is.(*networkingv1.ServiceEntry); ok {
		before, known := was.(*networkingv1.ServiceEntry)
		return known && proto.Equal(&before.Spec, &e.Spec)
	}
	return equality.Semantic.DeepEqual(was, is)
}

// origin returns where the manifest of a pod stands. Endpoints have no origin.
func (l *loop) origin(key source.Key) string {
	p := l.pods[key]
	if p == nil {
		return ""
	}
	return l.in.originOf(p.owner)
}

func (l *loop) snapshot(now time.Time) *Snapshot {
	s := &Snapshot{Synced: l.synced, LoadBalancers: l.balancers.list(), ClosedPorts: slices.Clone(l.balancers.problems)}
	if l.controlPlane != nil {
		s.ControlPlane = l.controlPlane.status()
	}
	for _, p := range l.sortedPods() {
		s.Pods = append(s.Pods, p.status(l.closed(p, now)))
	}
	return s
}
