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

// Options configure every scenario.
type Options struct {
	Mesh load.Shape
	// Sidecars is how many pods have a sidecar: the first ones.
	Sidecars int
	// ConnectRate is how many sidecars start to connect each second.
	ConnectRate float64
	// Changes is how many changes a phase makes, and Rate how many it makes each second.
	Changes int
	Rate    float64
	// MostChurned is how many sidecars a churn replaces at most; 0 is as many as its share says.
	MostChurned int
	// OneAtATime delays a change until the one before has reached all sidecars.
	OneAtATime bool
	// StallTimeout is how long a phase may make no progress before the run fails.
	StallTimeout time.Duration
	// IdleTime is how long the wire must be silent before a phase is over. 300 ms lets the last
	// acknowledgements be counted.
	IdleTime time.Duration
	// Plane makes the control plane, and Fleet the sidecars that connect to an address.
	Plane func() controlplane.Plane
	Fleet func(address string, h Hooks) (Fleet, error)
	// Progress is called with how far a stage is.
	Progress func(stage string, done, all int)
	// Profile takes a CPU profile of the control plane for each phase. Without it nothing is
	// recorded.
	Profile func(phase string, profile []byte) error
}

// Validate reports which option is out of range.
func (o Options) Validate() error {
	switch err := o.Mesh.Validate(); {
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

// maxChanges is how many changes of each kind there are markers for. Scenario Namespaces makes
// three kinds.
const maxChanges = int(load.MaxMarker) / 4

// testbed is one control plane with one fleet.
type testbed struct {
	o         Options
	plane     controlplane.Plane
	fleet     Fleet
	pods      *load.Pods
	tracker   *tracker
	sidecars  *sidecars
	phases    []Phase
	numWanted int // how many sidecars should be in sync
	// stopProfile ends the profile that is being recorded. It is nil if none is.
	stopProfile func() ([]byte, error)
}

// loadPhase is the phase in which the control plane starts and reads the mesh.
const loadPhase = "load"

// newTestbed starts a control plane with the mesh.
func newTestbed(ctx context.Context, o Options) (*testbed, error) {
	if err := CheckLimits(o.Sidecars); err != nil {
		return nil, err
	}
	b := &testbed{
		o:        o,
		plane:    o.Plane(),
		pods:     load.NewPods(o.Mesh),
		tracker:  newTracker(o.Mesh.Cluster(service)),
		sidecars: newSidecars(),
	}
	began := time.Now()
	o.Progress("starting the control plane", 0, 0)
	if err := b.plane.Start(ctx, append(o.Mesh.Objects(), b.pods.Objects()...)); err != nil {
		return nil, errors.Join(err, b.plane.Close(context.WithoutCancel(ctx)))
	}
	var err error
	hooks := Hooks{
		Classify: b.tracker.classify, Collected: b.tracker.collected, Arrived: b.tracker.arrived,
		Synced: func(pod string, at time.Time) {
			b.tracker.markSynced(pod)
			b.sidecars.synced(pod, at)
		},
	}
	if b.fleet, err = o.Fleet(b.plane.Address(), hooks); err != nil {
		return nil, errors.Join(err, b.plane.Close(context.WithoutCancel(ctx)))
	}
	usage, err := b.plane.Usage(ctx)
	if err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	b.phases = append(b.phases, Phase{
		Name:        loadPhase,
		Time:        Seconds(time.Since(began)),
		CPU:         Seconds(usage.CPU),
		Resident:    usage.Resident,
		Peak:        usage.Peak,
		Allocated:   usage.Allocated,
		Allocations: usage.Allocations, GCTime: Seconds(usage.GCTime),
	})
	return b, nil
}

// close stops the fleet and the control plane, also when ctx is done.
func (b *testbed) close(ctx context.Context) error {
	b.fleet.Close()
	return b.plane.Close(context.WithoutCancel(ctx))
}

// usageSample is what both processes had used, and what had been sent, at one time.
type usageSample struct {
	server, client measure.Usage
	wire           Totals
}

func (b *testbed) sampleUsage(ctx context.Context) (l usageSample, err error) {
	if l.server, err = b.plane.Usage(ctx); err != nil {
		return l, err
	}
	l.client, err = measure.PID(os.Getpid()).Usage(ctx)
	l.wire = b.fleet.Totals()
	return l, err
}

// phase runs a step and measures its cost. The step fills in what else it knows.
func (b *testbed) phase(ctx context.Context, s step) error {
	p := Phase{Name: s.name}
	before, err := b.sampleUsage(ctx)
	if err != nil {
		return err
	}
	if !s.endsProcess {
		if err := b.startProfile(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	sockets := pollMax(2*pollInterval, measure.SocketMemory)
	err = s.run(b, ctx, &p)
	p.PeakSockets = sockets()
	if errors.Is(err, errSkipped) {
		return b.discardProfile()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if p.Time == 0 {
		p.Time = Seconds(time.Since(began))
	}
	if err := b.awaitIdle(ctx, b.o.IdleTime, idleTimeout); err != nil {
		return err
	}
	if err := b.saveProfile(s.name); err != nil {
		return err
	}
	after, err := b.sampleUsage(ctx)
	if err != nil {
		return err
	}
	p.fill(before, after)
	p.Sidecars = b.sidecars.numSynced()
	b.phases = append(b.phases, p)
	return nil
}

// errSkipped is returned by a step that has nothing to do. Such a step makes no phase.
var errSkipped = errors.New("nothing to do")

// pollMax samples a value periodically until the returned function is called, which returns the
// highest sample.
func pollMax(every time.Duration, look func() int64) (most func() int64) {
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

// startProfile starts a CPU profile of the control plane if Options.Profile is set.
func (b *testbed) startProfile(ctx context.Context) (err error) {
	if b.o.Profile != nil {
		b.stopProfile, err = b.plane.Profile(ctx)
	}
	return err
}

// saveProfile ends the profile of a phase and passes it to Options.Profile.
func (b *testbed) saveProfile(phase string) error {
	if b.stopProfile == nil {
		return nil
	}
	profile, err := b.stopProfile()
	if b.stopProfile = nil; err != nil {
		return err
	}
	return b.o.Profile(phase, profile)
}

// discardProfile ends a profile and drops it.
func (b *testbed) discardProfile() error {
	if b.stopProfile == nil {
		return nil
	}
	_, err := b.stopProfile()
	b.stopProfile = nil
	return err
}

func (p *Phase) fill(before, after usageSample) {
	wire := after.wire.minus(before.wire)
	used := after.server.Since(before.server)
	p.CPU, p.LoadCPU = Seconds(used.CPU), Seconds(after.client.CPU-before.client.CPU)
	p.Received, p.Sent, p.Responses = wire.Received, wire.Sent, wire.Responses
	p.Refused, p.RefusedStreams, p.BrokenConnections = wire.Refused, wire.RefusedStreams, wire.BrokenConnections
	p.Allocated, p.Allocations, p.GCTime = used.Allocated, used.Allocations, Seconds(used.GCTime)
	p.Resident, p.Peak, p.LoadResident = used.Resident, used.Peak, after.client.Resident
	p.Sockets = measure.SocketMemory()
	p.PeakSockets = max(p.PeakSockets, p.Sockets)
}

// idleTimeout bounds the wait for Options.IdleTime of silence. pollInterval is the time between two
// checks.
const (
	idleTimeout  = 10 * time.Second
	pollInterval = 50 * time.Millisecond
)

// awaitIdle waits until nothing has been sent or received for the time idle, at most as long as
// within. At the end of a phase it lets the last acknowledgements arrive, since their cost belongs
// to the phase.
func (b *testbed) awaitIdle(ctx context.Context, idle, within time.Duration) error {
	ticker := time.NewTicker(min(pollInterval, max(idle, time.Millisecond)))
	defer ticker.Stop()
	began := time.Now()
	last, since := b.fleet.Totals(), began
	for {
		select {
		case now := <-ticker.C:
			if t := b.fleet.Totals(); t != last {
				last, since = t, now
			}
			if now.Sub(since) >= idle || now.Sub(began) >= within {
				return nil
			}
		case <-b.plane.Done():
			return b.plane.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errStalled is the error of a phase that makes no progress.
var errStalled = errors.New("nothing has happened")

// await waits until done returns all, and reports progress meanwhile. It calls done at each signal
// and at each tick, and fails when done returns the same number for Options.StallTimeout.
func (b *testbed) await(ctx context.Context, stage string, signal <-chan struct{}, all int, done func() int) error {
	ticker := time.NewTicker(2 * pollInterval)
	defer ticker.Stop()
	still := time.NewTimer(b.o.StallTimeout)
	defer still.Stop()
	for last := -1; ; {
		n := done()
		if n >= all {
			b.o.Progress(stage, all, all)
			return nil
		}
		if n != last {
			last = n
			still.Reset(b.o.StallTimeout)
		}
		select {
		case <-signal:
		case <-ticker.C:
			b.o.Progress(stage, n, all)
		case <-still.C:
			return fmt.Errorf("%w for %v: %d of %d are done", errStalled, b.o.StallTimeout, n, all)
		case <-b.plane.Done():
			return b.plane.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
