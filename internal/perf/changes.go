package perf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Kind is a kind of change.
type Kind string

// The kinds of changes.
const (
	// Endpoints gives one service another endpoint, in place of the one from the last change.
	Endpoints Kind = "endpoints"
	// Routes edits one VirtualService.
	Routes Kind = "routes"
	// Services creates a Service with an EndpointSlice.
	Services Kind = "create-services"
)

// groups returns the resource groups by which a change of a kind arrives.
func (k Kind) groups() []resourceGroup {
	switch k {
	case Endpoints:
		return []resourceGroup{endpoints}
	case Routes:
		return []resourceGroup{routes}
	}
	return []resourceGroup{clusters, endpoints, routes}
}

// service is the number of the service that changes of endpoints and routes modify. New services
// are in its namespace.
const service = 0

// change returns a change of a kind, of the given number of services at once.
func (k Kind) change(s load.Shape, m load.Marker, services int) (changes []source.Change) {
	for i := range services {
		switch k {
		case Endpoints:
			changes = append(changes, s.Endpoint(service+i, m))
		case Routes:
			changes = append(changes, s.Route(service+i, m))
		default:
			return s.NewService(m)
		}
	}
	return changes
}

// affectedNamespace returns the namespace whose proxies see changes of a service, or "" for all.
func (b *testbed) affectedNamespace(of int) string {
	if b.o.Mesh.Isolated {
		return b.o.Mesh.Namespace(of)
	}
	return ""
}

// change makes changes and waits until they have reached all sidecars.
func (b *testbed) change(ctx context.Context, p *Phase, s steadyChanges) error {
	before, began := b.tracker.startPhase(s.kind.groups()...), time.Now()
	pace := newPacer(s.rate)
	defer pace.stop()
	for i := range s.writes {
		if err := pace.wait(ctx); err != nil {
			return err
		}
		m := b.tracker.begin(b.affectedNamespace(service))
		if err := b.plane.Apply(ctx, s.kind.change(b.o.Mesh, m, s.services)...); err != nil {
			return err
		}
		b.o.Progress("writing changes", i+1, s.writes)
		if b.o.OneAtATime {
			if err := b.awaitChanges(ctx, before, i+1); err != nil {
				return err
			}
		}
	}
	err := b.awaitChanges(ctx, before, s.writes)
	p.Changes, p.Time = s.changes(), Seconds(time.Since(began))
	b.tracker.report(before, p)
	return err
}

// awaitChanges waits until so many changes since the baseline have reached all sidecars.
func (b *testbed) awaitChanges(ctx context.Context, s baseline, all int) error {
	err := b.await(
		ctx, "waiting for the last sidecar", b.tracker.progress, all, func() int { return b.tracker.countComplete(s) },
	)
	if errors.Is(err, errStalled) {
		return fmt.Errorf("%w: %s", err, b.tracker.describeMissing(s))
	}
	return err
}

// churn replaces a percentage of the sidecars by new ones and waits until all have received the
// changes. Options.Rate counts removals and additions.
func (b *testbed) churn(ctx context.Context, p *Phase, percent int) error {
	churned := b.o.Sidecars * percent / 100
	if b.o.MostChurned > 0 {
		churned = min(churned, b.o.MostChurned)
	}
	places := load.Spread(b.o.Sidecars, churned)
	before, began := b.tracker.startPhase(endpoints), time.Now()
	pace := newPacer(b.o.Rate)
	defer pace.stop()
	for i, place := range places {
		for _, step := range []func(context.Context, int) error{b.remove, b.replace} {
			if err := pace.wait(ctx); err != nil {
				return err
			}
			if err := step(ctx, place); err != nil {
				return err
			}
		}
		b.o.Progress("replacing sidecars", i+1, len(places))
	}
	all := len(places) + b.timedRemovals(places)
	err := b.awaitChanges(ctx, before, all)
	if err == nil {
		err = b.awaitSync(ctx, "waiting for new sidecars")
	}
	p.Changes, p.Time = len(places), Seconds(time.Since(began))
	p.Rate = 2 * float64(len(places)) / time.Since(began).Seconds()
	b.tracker.report(before, p)
	p.Ready = b.sidecars.takeReady()
	return err
}

// timedRemovals counts the removals that are timed: those of pods of one service, whose endpoints
// show it.
func (b *testbed) timedRemovals(places []int) (n int) {
	for _, place := range places {
		if b.o.Mesh.ServiceOf(place) == service {
			n++
		}
	}
	return n
}

// remove removes a sidecar with its pod. The other sidecars receive the removal of its endpoint.
func (b *testbed) remove(ctx context.Context, place int) error {
	pod := b.pods.Pod(place)
	b.tracker.leave(pod.Name)
	if pod.Service == service {
		b.tracker.beginRemoval(b.affectedNamespace(service), pod.Address)
	}
	if err := b.plane.Apply(ctx, b.pods.Remove(place)...); err != nil {
		return err
	}
	b.stop(place)
	return nil
}

// replace adds a pod with a sidecar in place of a removed one. The marker of this change is the
// pod's address.
func (b *testbed) replace(ctx context.Context, place int) error {
	m := b.tracker.begin(b.affectedNamespace(b.o.Mesh.ServiceOf(place)))
	pod, changes := b.pods.Replace(place, m)
	if err := b.plane.Apply(ctx, changes...); err != nil {
		return err
	}
	b.start(place, pod)
	return nil
}

// warm makes the control plane send everything to all proxies, if it supports that.
func (b *testbed) warm(ctx context.Context, _ *Phase) error {
	done, err := b.plane.Warm(ctx)
	if err == nil && !done {
		return errSkipped
	}
	if err != nil {
		return err
	}
	return b.awaitIdle(ctx, warmIdleFactor*b.o.IdleTime, b.o.StallTimeout)
}

// warmIdleFactor multiplies Options.IdleTime after warm. Only silence shows that the last proxy was
// sent everything.
const warmIdleFactor = 5

// reconnect stops all proxies and connects new ones, which hold nothing, at Options.ConnectRate.
func (b *testbed) reconnect(ctx context.Context, p *Phase) error {
	for _, place := range b.sidecars.places() {
		b.tracker.leave(b.pods.Pod(place).Name)
		b.stop(place)
	}
	all := b.numWanted
	b.numWanted = 0
	return b.connect(ctx, p, all)
}

// restart restarts the control plane and waits until all sidecars are in sync with the new process.
func (b *testbed) restart(ctx context.Context, p *Phase) error {
	began := time.Now()
	b.o.Progress("restarting the control plane", 0, 0)
	b.sidecars.restartWait()
	if err := b.plane.Restart(ctx); err != nil {
		return err
	}
	if err := b.startProfile(ctx); err != nil {
		return err
	}
	err := b.awaitSync(ctx, "waiting for sidecars to come back")
	p.Time = Seconds(time.Since(began))
	p.Ready = b.sidecars.takeReady()
	return err
}
