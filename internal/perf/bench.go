package perf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Options are what every scenario is told.
type Options struct {
	Mesh load.Shape
	// Sidecars is how many pods have one: the first.
	Sidecars int
	// ConnectRate is how many sidecars begin to connect each second.
	ConnectRate float64
	// Changes is how many are made in a phase of changes, Rate how many each second.
	Changes int
	Rate    float64
	// Singly lets a change wait until all have the one before.
	Singly bool
	// Patience is how long a phase may stand still before the run fails.
	Patience time.Duration
	// Calm is how long nothing may come or go for a phase to be over: 300 ms lets the last acknowledgements be counted.
	Calm time.Duration
	// Plane makes the control plane, Fleet the sidecars that connect to an address.
	Plane func() controlplane.Plane
	Fleet func(address string, h Hooks) (Fleet, error)
	// Progress is told how far a stage is.
	Progress func(stage string, done, all int)
	// Profile is given a CPU profile of the control plane for each phase; nil if nobody wants it.
	Profile func(phase string, profile []byte) error
}

// Check tells what of the options cannot be done.
func (o Options) Check() error {
	switch err := o.Mesh.Check(); {
	case err != nil:
		return err
	case o.Sidecars < 1 || o.Sidecars > o.Mesh.Pods:
		return fmt.Errorf("%d sidecars: want 1 to %d, one for each pod at most", o.Sidecars, o.Mesh.Pods)
	case o.Changes < 1 || o.Changes > maxChanges:
		return fmt.Errorf("%d changes: want 1 to %d", o.Changes, maxChanges)
	case o.Rate < 0 || o.ConnectRate < 0:
		return errors.New("a rate is 0 or greater")
	}
	return nil
}

// maxChanges is how many changes of each kind there are markers for: Namespaces makes three.
const maxChanges = int(load.MaxMarker) / 4

// bench is one control plane with one fleet.
type bench struct {
	o        Options
	plane    controlplane.Plane
	fleet    Fleet
	pods     *load.Pods
	tracker  *tracker
	sidecars *sidecars
	phases   []Phase
	wanted   int // sidecars that should be there
	// recorded ends the profile that is being recorded; nil if none is.
	recorded func() ([]byte, error)
}

// loading is the phase in which the control plane starts and takes the mesh in.
const loading = "load"

// newBench starts a control plane with the mesh.
func newBench(ctx context.Context, o Options) (*bench, error) {
	b := &bench{o: o, plane: o.Plane(), pods: load.NewPods(o.Mesh), tracker: newTracker(o.Mesh.Cluster(service)), sidecars: newSidecars()}
	began := time.Now()
	o.Progress("starting the control plane", 0, 0)
	if err := b.plane.Start(ctx, append(o.Mesh.Objects(), b.pods.Objects()...)); err != nil {
		return nil, errors.Join(err, b.plane.Close(context.WithoutCancel(ctx)))
	}
	var err error
	hooks := Hooks{Classify: b.tracker.classify, Arrived: b.tracker.arrived, Synced: func(pod string, at time.Time) {
		b.tracker.settle(pod)
		b.sidecars.synced(pod, at)
	}}
	if b.fleet, err = o.Fleet(b.plane.Address(), hooks); err != nil {
		return nil, errors.Join(err, b.plane.Close(context.WithoutCancel(ctx)))
	}
	usage, err := b.plane.Usage(ctx)
	if err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	b.phases = append(b.phases, Phase{
		Name: loading, Time: Seconds(time.Since(began)), CPU: Seconds(usage.CPU), Resident: usage.Resident, Peak: usage.Peak, Allocated: usage.Allocated,
		Allocations: usage.Allocations, Collecting: Seconds(usage.Collecting),
	})
	return b, nil
}

// close ends all of it, also when ctx is done.
func (b *bench) close(ctx context.Context) error {
	b.fleet.Close()
	return b.plane.Close(context.WithoutCancel(ctx))
}

// look is what had been used and sent at one time.
type look struct {
	server, client measure.Usage
	wire           Totals
}

func (b *bench) look(ctx context.Context) (l look, err error) {
	if l.server, err = b.plane.Usage(ctx); err != nil {
		return l, err
	}
	l.client, err = measure.PID(os.Getpid()).Usage(ctx)
	l.wire = b.fleet.Totals()
	return l, err
}

// phase runs a step and measures what it took; the step fills in what else it knows.
func (b *bench) phase(ctx context.Context, s step) error {
	p := Phase{Name: s.name}
	before, err := b.look(ctx)
	if err != nil {
		return err
	}
	if !s.ends {
		if err := b.record(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	sockets := watch(2*glance, measure.SocketMemory)
	err = s.run(b, ctx, &p)
	p.PeakSockets = sockets()
	if errors.Is(err, errNothing) {
		return b.discard()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if p.Time == 0 {
		p.Time = Seconds(time.Since(began))
	}
	if err := b.calm(ctx, b.o.Calm, calmWithin); err != nil {
		return err
	}
	if err := b.keep(s.name); err != nil {
		return err
	}
	after, err := b.look(ctx)
	if err != nil {
		return err
	}
	p.fill(before, after)
	p.Sidecars = b.sidecars.there()
	b.phases = append(b.phases, p)
	return nil
}

// errNothing is a step that there is nothing to do for: it is no phase.
var errNothing = errors.New("nothing to do")

// watch looks again and again until the function that it returns is called, which tells the most that was seen.
func watch(every time.Duration, look func() int64) (most func() int64) {
	end, seen := make(chan struct{}), make(chan int64)
	go func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for most := look(); ; {
			select {
			case <-ticker.C:
				most = max(most, look())
			case <-end:
				seen <- max(most, look())
				return
			}
		}
	}()
	return func() int64 { close(end); return <-seen }
}

// record begins a CPU profile of the control plane, if anybody wants it.
func (b *bench) record(ctx context.Context) (err error) {
	if b.o.Profile != nil {
		b.recorded, err = b.plane.Profile(ctx)
	}
	return err
}

// keep ends the profile of a phase.
func (b *bench) keep(phase string) error {
	if b.recorded == nil {
		return nil
	}
	profile, err := b.recorded()
	if b.recorded = nil; err != nil {
		return err
	}
	return b.o.Profile(phase, profile)
}

// discard ends a profile that nobody wants.
func (b *bench) discard() error {
	if b.recorded == nil {
		return nil
	}
	_, err := b.recorded()
	b.recorded = nil
	return err
}

func (p *Phase) fill(before, after look) {
	wire := after.wire.minus(before.wire)
	used := after.server.Since(before.server)
	p.CPU, p.LoadCPU = Seconds(used.CPU), Seconds(after.client.CPU-before.client.CPU)
	p.Received, p.Sent, p.Responses = wire.Received, wire.Sent, wire.Responses
	p.Refused, p.Turned, p.Broken = wire.Refused, wire.Turned, wire.Broken
	p.Allocated, p.Allocations, p.Collecting = used.Allocated, used.Allocations, Seconds(used.Collecting)
	p.Resident, p.Peak, p.LoadResident = used.Resident, used.Peak, after.client.Resident
	p.Sockets = measure.SocketMemory()
	p.PeakSockets = max(p.PeakSockets, p.Sockets)
}

// calmWithin is how long it is waited that nothing comes or goes for Options.Calm, glance the time between two looks.
const (
	calmWithin = 10 * time.Second
	glance     = 50 * time.Millisecond
)

// calm waits until nothing has come or gone for some time, but not for longer than within. After a phase that lets the last
// acknowledgements be on their way: their cost belongs to what caused them.
func (b *bench) calm(ctx context.Context, calm, within time.Duration) error {
	ticker := time.NewTicker(min(glance, max(calm, time.Millisecond)))
	defer ticker.Stop()
	began := time.Now()
	last, since := b.fleet.Totals(), began
	for {
		select {
		case now := <-ticker.C:
			if t := b.fleet.Totals(); t != last {
				last, since = t, now
			}
			if now.Sub(since) >= calm || now.Sub(began) >= within {
				return nil
			}
		case <-b.plane.Done():
			return b.plane.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errStill is how a phase fails in which nothing happens.
var errStill = errors.New("nothing has happened")

// await waits until done says that all is done, looking whenever there is a signal, and shows how far it is. It fails when nothing has
// moved for the patience that the options have.
func (b *bench) await(ctx context.Context, stage string, signal <-chan struct{}, all int, done func() int) error {
	ticker := time.NewTicker(2 * glance)
	defer ticker.Stop()
	still := time.NewTimer(b.o.Patience)
	defer still.Stop()
	for last := -1; ; {
		n := done()
		if n >= all {
			b.o.Progress(stage, all, all)
			return nil
		}
		if n != last {
			last = n
			still.Reset(b.o.Patience)
		}
		select {
		case <-signal:
		case <-ticker.C:
			b.o.Progress(stage, n, all)
		case <-still.C:
			return fmt.Errorf("%w for %v: %d of %d are done", errStill, b.o.Patience, n, all)
		case <-b.plane.Done():
			return b.plane.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
