package perf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Disturbance is what happens beside the well-behaved sidecars that are measured.
type Disturbance string

// The disturbances.
const (
	// StalledReaders read nothing after their first sync.
	StalledReaders Disturbance = "does not read"
	// LateACKs are sidecars that acknowledge after five seconds.
	LateACKs Disturbance = "ACKs late"
	// RequestFlood is sidecars that ask for what they have, up to 5,000 times a second.
	RequestFlood Disturbance = "floods with requests"
	// MassConnect is many sidecars that connect in the same second, as changes begin. They see none
	// of the changes, because sending these to them would measure a larger mesh.
	MassConnect Disturbance = "many connect at once"
	// NamespaceOverload is a high rate of changes to services of another namespace. MeshOverload is
	// the same rate of changes to services of all namespaces.
	NamespaceOverload Disturbance = "overload of a namespace"
	MeshOverload      Disturbance = "overload everywhere"
)

// Disturbances returns all of them in the order of reports.
func Disturbances() []Disturbance {
	return []Disturbance{StalledReaders, LateACKs, RequestFlood, MassConnect, NamespaceOverload, MeshOverload}
}

// DisturbancesByFlag maps flag values to disturbances.
func DisturbancesByFlag() map[string]Disturbance {
	return map[string]Disturbance{
		"stalled-reader": StalledReaders, "late-ack": LateACKs, "request-flood": RequestFlood,
		"mass-connect": MassConnect, "overload": NamespaceOverload, "overload-everywhere": MeshOverload,
	}
}

// PressureOptions configure Pressure.
type PressureOptions struct {
	Options
	// NumMisbehaving is how many sidecars misbehave at a time. Their pods follow those of
	// Options.Sidecars. NumMassConnect is how many sidecars of MassConnect there are. They have a
	// namespace of their own, with as many services as the rest of the mesh.
	NumMisbehaving, NumMassConnect int
	// OverloadRate is how many changes an overload makes each second.
	OverloadRate float64
	// Only selects disturbances. Empty selects all.
	Only []Disturbance
	// Runs is how many pairs of runs measure each disturbance, one with it and one without.
	Runs int
}

// Validate reports which option is out of range.
func (o PressureOptions) Validate() error {
	switch err := o.Options.Validate(); {
	case err != nil:
		return err
	case o.NumMisbehaving < 1 || o.NumMassConnect < 1 || o.Runs < 1 || o.OverloadRate <= 0:
		return errors.New("misbehaving, mass connect, rate of changes and runs: want 1 of each at least")
	case o.Mesh.Pods < o.Sidecars+o.NumMisbehaving:
		return fmt.Errorf(
			"%d pods: want %d, for sidecars that are well and for those that are not",
			o.Mesh.Pods,
			o.Sidecars+o.NumMisbehaving,
		)
	case o.Mesh.Services < 2:
		return errors.New("the overload is of other services than the one that is measured: want 2 at least")
	case 2*len(o.disturbances())*o.Runs*o.Changes > maxChanges:
		return fmt.Errorf("%d runs of %d changes: there are marks for %d changes in all", o.Runs, o.Changes, maxChanges)
	}
	return nil
}

// disturbances returns those that are measured.
func (o PressureOptions) disturbances() []Disturbance {
	if len(o.Only) == 0 {
		return Disturbances()
	}
	return o.Only
}

// Pressure measures the latency of changes to well-behaved sidecars, with and without a disturbance
// in turn. On error the report holds what was measured so far.
func Pressure(ctx context.Context, o PressureOptions) (PressureReport, error) {
	o.Mesh.UnmanagedNamespaces, o.Mesh.UnmanagedServices = 1, o.Mesh.Services
	o.Mesh.UnmanagedPods, o.Mesh.UnmanagedApart = o.NumMassConnect, true
	r := PressureReport{Machine: measure.ThisMachine(), Mesh: o.Mesh}
	b, err := newTestbed(ctx, o.Options)
	if err != nil {
		return r, err
	}
	r.ControlPlane = b.plane.Describe(ctx)
	w := pressureTest{testbed: b, o: o}
	r.Rows, err = w.measure(ctx)
	return r, errors.Join(err, b.close(ctx))
}

// pressureTest is a testbed with disturbances.
type pressureTest struct {
	*testbed
	o PressureOptions
}

func (w *pressureTest) measure(ctx context.Context) (rows []PressurePairs, err error) {
	if err := w.phase(ctx, connectStep()); err != nil {
		return nil, err
	}
	progress := w.testbed.o.Progress
	for _, s := range w.o.disturbances() {
		row := PressurePairs{Disturbance: s}
		for run := range w.o.Runs {
			w.testbed.o.Progress = func(stage string, done, all int) {
				progress(fmt.Sprintf("%s, %d of %d: %s", s, run+1, w.o.Runs, stage), done, all)
			}
			var pair [2]PressureRun // without, with
			for turn := range 2 {
				i := (turn + run) % 2 // the order alternates
				if pair[i], err = w.measureRun(ctx, s, i == 1); err != nil {
					return rows, fmt.Errorf("%s: %w", s, err)
				}
			}
			row.add(pair[0], pair[1])
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// measureRun makes the changes once, with the disturbance or without.
func (w *pressureTest) measureRun(ctx context.Context, s Disturbance, disturbed bool) (h PressureRun, err error) {
	before, err := w.plane.Usage(ctx)
	if err != nil {
		return h, err
	}
	stop := func() error { return nil }
	if disturbed {
		if stop, err = w.disturb(ctx, s); err != nil {
			return h, err
		}
	}
	peak := pollMax(sampleInterval, func() int64 { return w.residentBytes(ctx) })
	var p Phase
	err = w.change(ctx, &p, steadyChanges{
		kind: Endpoints, writes: w.testbed.o.Changes, services: 1, rate: w.testbed.o.Rate,
	})
	seen, left := peak(), w.residualQueues(ctx)
	if err = errors.Join(err, stop()); err != nil {
		return h, err
	}
	after, err := w.plane.Usage(ctx)
	if err != nil {
		return h, err
	}
	h = PressureRun{
		Latency: *p.Latency,
		CPU:     Seconds(after.CPU - before.CPU),
		Peak:    seen,
		Queued:  left.userSpace,
		Kernel:  left.kernel,
	}
	return h, w.awaitIdle(ctx, w.testbed.o.IdleTime, idleTimeout)
}

// disturb starts a disturbance, and stop ends it. All sidecars but those of MassConnect are in sync
// when it returns.
func (w *pressureTest) disturb(ctx context.Context, s Disturbance) (stop func() error, err error) {
	switch s {
	case NamespaceOverload:
		return w.overload(ctx, w.o.Mesh.Namespaces), nil
	case MeshOverload:
		return w.overload(ctx, 1), nil
	}
	number, first := w.o.NumMisbehaving, w.o.Sidecars
	if s == MassConnect {
		number, first = w.o.NumMassConnect, w.o.Mesh.Pods
	}
	pods := make([]load.Pod, number)
	for i := range pods {
		pods[i] = w.pods.Pod(first + i)
	}
	patients, err := w.fleet.StartMisbehaving(pods, s)
	if err != nil {
		return nil, err
	}
	settled := func() error {
		return w.await(ctx, "waiting for those that misbehave", nil, number, patients.Synced)
	}
	if s == MassConnect {
		return func() error { return errors.Join(settled(), patients.Stop()) }, nil
	}
	if err := settled(); err != nil {
		return nil, errors.Join(err, patients.Stop())
	}
	return patients.Stop, nil
}

// overloadInterval is the time between two writes of an overload. Each write makes the changes of
// that time.
const overloadInterval = 10 * time.Millisecond

// overload changes endpoints of every nth service but the measured one, until end is called.
func (w *pressureTest) overload(ctx context.Context, every int) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		pace := newPacer(float64(time.Second / overloadInterval))
		defer pace.stop()
		each := max(1, int(w.o.OverloadRate*overloadInterval.Seconds()))
		for n := 0; ; n += each {
			if pace.wait(ctx) != nil {
				done <- nil
				return
			}
			if err := w.plane.Apply(
				ctx, w.testbed.o.Mesh.StormChanges(n, each, every)...,
			); err != nil && ctx.Err() == nil {
				done <- err
				return
			}
		}
	}()
	return func() error { cancel(); return <-done }
}

// sampleInterval is the time between two samples of the control plane's memory. A sample costs it a
// scrape.
const sampleInterval = 500 * time.Millisecond

// residentBytes returns the control plane's memory, or 0 if it is unknown.
func (w *pressureTest) residentBytes(ctx context.Context) int64 {
	u, err := w.plane.Usage(ctx)
	if err != nil {
		return 0
	}
	return u.Resident
}

// queuedBytes are bytes not sent yet: in the control plane for all clients, and in the kernel for
// the client with the most.
type queuedBytes struct{ userSpace, kernel int64 }

// queueSamples is how many samples residualQueues takes within Options.IdleTime. What waits for
// well-behaved sidecars is gone by the next sample, so the minimum is what waits for the others.
const queueSamples = 5

// residualQueues returns what is still queued when all changes have arrived: the minimum of a few
// samples.
func (w *pressureTest) residualQueues(ctx context.Context) (least queuedBytes) {
	_, port, _ := net.SplitHostPort(w.plane.Address())
	number, _ := strconv.Atoi(port) // port 0 has no connections
	pace := newPacer(queueSamples / w.testbed.o.IdleTime.Seconds())
	defer pace.stop()
	for i := range queueSamples {
		if pace.wait(ctx) != nil {
			break
		}
		u, err := w.plane.Usage(ctx)
		if err != nil {
			break
		}
		now := queuedBytes{u.Queued, measure.SendQueue(number)}
		if i == 0 {
			least = now
		}
		least = queuedBytes{min(least.userSpace, now.userSpace), min(least.kernel, now.kernel)}
	}
	return least
}

// PressureReport is the result of Pressure. Times are seconds, sizes bytes.
type PressureReport struct {
	Command      string                   `json:"command"`
	Lateen       string                   `json:"lateen"`
	ControlPlane controlplane.Description `json:"controlPlane"`
	Machine      measure.Machine          `json:"machine"`
	Mesh         load.Shape               `json:"mesh"`
	Rows         []PressurePairs          `json:"disturbances"`
}

// Ratio is how many times later p99 is with the disturbance: the median of the pairs.
func (p *PressurePairs) Ratio() float64 { return median(p.Ratios) }

// PressureRun is the result of one run for the well-behaved sidecars.
type PressureRun struct {
	Latency measure.Summary `json:"latency"`
	CPU     Seconds         `json:"cpuSeconds"`
	// Peak is the highest memory sample of the control plane. After the last change had arrived,
	// Queued bytes waited in it for all clients (lateen_xds_queued_bytes, where it has this metric)
	// and Kernel bytes in the kernel for the client with the most.
	Peak   int64 `json:"peakBytes"`
	Queued int64 `json:"queuedBytes"`
	Kernel int64 `json:"kernelBytes"`
}

// PressurePairs are the runs with one disturbance, each with its run without.
type PressurePairs struct {
	Disturbance Disturbance   `json:"disturbance"`
	Without     []PressureRun `json:"without"`
	With        []PressureRun `json:"with"`
	// Ratios are the p99 with the disturbance divided by the p99 without, for each pair.
	Ratios []float64 `json:"p99Ratios"`
}

func (p *PressurePairs) add(without, with PressureRun) {
	p.Without, p.With = append(p.Without, without), append(p.With, with)
	p.Ratios = append(p.Ratios, with.Latency.P99.Float()/max(without.Latency.P99.Float(), time.Microsecond.Seconds()))
}

// medianOf returns the median of a number of the runs.
func medianOf[T cmp.Ordered](of []PressureRun, number func(h *PressureRun) T) T {
	var all []T
	for i := range of {
		all = append(all, number(&of[i]))
	}
	return median(all)
}

func median[T cmp.Ordered](of []T) T {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}
