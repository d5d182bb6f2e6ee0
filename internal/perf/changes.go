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
	// Endpoints gives one service another endpoint, in place of the one that the last change gave it.
	Endpoints Kind = "endpoints"
	// Routes edits one VirtualService.
	Routes Kind = "routes"
	// Services creates a Service with an EndpointSlice.
	Services Kind = "create-services"
)

// lanes are those by which a change of a kind arrives.
func (k Kind) lanes() []lane {
	switch k {
	case Endpoints:
		return []lane{endpoints}
	case Routes:
		return []lane{routes}
	}
	return []lane{clusters, endpoints, routes}
}

// service is the one that changes of endpoints and routes are about; new ones are in its namespace.
const service = 0

// change is one of a kind, of so many services at once.
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

// concerned is the namespace whose proxies see changes, empty for all.
func (b *bench) concerned(of int) string {
	if b.o.Mesh.Isolated {
		return b.o.Mesh.Namespace(of)
	}
	return ""
}

// change makes changes and waits until they have arrived everywhere.
func (b *bench) change(ctx context.Context, p *Phase, s stream) error {
	before, began := b.tracker.watch(s.kind.lanes()...), time.Now()
	pace := newPace(s.rate)
	defer pace.stop()
	for i := range s.writes {
		if err := pace.wait(ctx); err != nil {
			return err
		}
		m := b.tracker.begin(b.concerned(service))
		if err := b.plane.Apply(ctx, s.kind.change(b.o.Mesh, m, s.services)...); err != nil {
			return err
		}
		b.o.Progress("writing changes", i+1, s.writes)
		if b.o.Singly {
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

// awaitChanges waits until so many changes since then have arrived everywhere.
func (b *bench) awaitChanges(ctx context.Context, s since, all int) error {
	err := b.await(ctx, "waiting for the last sidecar", b.tracker.progress, all, func() int { return b.tracker.complete(s) })
	if errors.Is(err, errStill) {
		return fmt.Errorf("%w: %s", err, b.tracker.lacking(s))
	}
	return err
}

// churn lets a share of the sidecars go and others come in their place, as many each second as the options' rate says, both counted. It
// waits until all have each other.
func (b *bench) churn(ctx context.Context, p *Phase, percent int) error {
	places := load.Spread(b.o.Sidecars, b.o.Sidecars*percent/100)
	before, began := b.tracker.watch(endpoints), time.Now()
	pace := newPace(b.o.Rate)
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

// timedRemovals is how many removals of pods at some places are timed: those of one service, whose endpoints tell.
func (b *bench) timedRemovals(places []int) (n int) {
	for _, place := range places {
		if b.o.Mesh.ServiceOf(place) == service {
			n++
		}
	}
	return n
}

// remove lets a sidecar go with its pod: a change for the others, who are to lose its endpoint.
func (b *bench) remove(ctx context.Context, place int) error {
	pod := b.pods.Pod(place)
	b.tracker.leave(pod.Name)
	if pod.Service == service {
		b.tracker.beginRemoval(b.concerned(service), pod.Address)
	}
	if err := b.plane.Apply(ctx, b.pods.Remove(place)...); err != nil {
		return err
	}
	b.stop(place)
	return nil
}

// replace lets another come: a change whose marker is its address.
func (b *bench) replace(ctx context.Context, place int) error {
	m := b.tracker.begin(b.concerned(b.o.Mesh.ServiceOf(place)))
	pod, changes := b.pods.Replace(place, m)
	if err := b.plane.Apply(ctx, changes...); err != nil {
		return err
	}
	b.start(place, pod)
	return nil
}

// warm lets the control plane send everything to all proxies, if there is a way.
func (b *bench) warm(ctx context.Context, _ *Phase) error {
	done, err := b.plane.Warm(ctx)
	if err == nil && !done {
		return errNothing
	}
	if err != nil {
		return err
	}
	return b.calm(ctx, warmCalm*b.o.Calm, b.o.Patience)
}

// warmCalm is how many times longer it must be calm than after other phases: nothing else tells when the last proxy was sent everything.
const warmCalm = 5

// again lets all proxies go and connect as new ones, which have nothing, at the rate at which they connected first.
func (b *bench) again(ctx context.Context, p *Phase) error {
	for _, place := range b.sidecars.places() {
		b.tracker.leave(b.pods.Pod(place).Name)
		b.stop(place)
	}
	all := b.wanted
	b.wanted = 0
	return b.connect(ctx, p, all)
}

// restart ends the control plane and starts it again, and waits until all sidecars are in sync with the new one.
func (b *bench) restart(ctx context.Context, p *Phase) error {
	began := time.Now()
	b.o.Progress("restarting the control plane", 0, 0)
	b.sidecars.waitAgain()
	if err := b.plane.Restart(ctx); err != nil {
		return err
	}
	if err := b.record(ctx); err != nil {
		return err
	}
	err := b.awaitSync(ctx, "waiting for sidecars to come back")
	p.Time = Seconds(time.Since(began))
	p.Ready = b.sidecars.takeReady()
	return err
}
