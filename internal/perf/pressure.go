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

// Sickness is what is wrong beside sidecars that are well.
type Sickness string

// The sicknesses.
const (
	// Deaf sidecars read nothing once they have everything.
	Deaf Sickness = "does not read"
	// Late ones acknowledge after five seconds.
	Late Sickness = "ACKs late"
	// Flooding ones ask for what they have as often as they can, up to 5,000 times a second.
	Flooding Sickness = "floods with requests"
	// Crowd is many that connect in the same second, as changes begin, and see none of them: who sees a change is told of it, and
	// that would be the cost of a larger mesh.
	Crowd Sickness = "many connect at once"
	// Storm is changes of another namespace's services, very many a second, and Tempest is as many of all namespaces.
	Storm   Sickness = "storm in a namespace"
	Tempest Sickness = "storm everywhere"
)

// Sicknesses are all, in the order in which they are told.
func Sicknesses() []Sickness { return []Sickness{Deaf, Late, Flooding, Crowd, Storm, Tempest} }

// ByName are all by the name of a flag's value.
func ByName() map[string]Sickness {
	return map[string]Sickness{"deaf": Deaf, "late": Late, "flood": Flooding, "crowd": Crowd, "storm": Storm, "storm-everywhere": Tempest}
}

// PressureOptions are what Pressure is told beside what every scenario is.
type PressureOptions struct {
	Options
	// Sick is how many are deaf, late or flood at a time. Their pods are those behind the ones of Sidecars. Crowd is how many connect at once;
	// they have a namespace of their own, with as many services as there are besides.
	Sick, Crowd int
	// StormRate is how many changes a second a storm has.
	StormRate float64
	// Only are the sicknesses that are measured; empty for all.
	Only []Sickness
	// Runs is how often each is measured, with and without in turn.
	Runs int
}

// Check tells what of the options cannot be done.
func (o PressureOptions) Check() error {
	switch err := o.Options.Check(); {
	case err != nil:
		return err
	case o.Sick < 1 || o.Crowd < 1 || o.Runs < 1 || o.StormRate <= 0:
		return errors.New("sick sidecars, a crowd, a storm and runs: want 1 of each at least")
	case o.Mesh.Pods < o.Sidecars+o.Sick:
		return fmt.Errorf("%d pods: want %d, for sidecars that are well and for those that are not", o.Mesh.Pods, o.Sidecars+o.Sick)
	case o.Mesh.Services < 2:
		return errors.New("a storm is of other services than the one that is measured: want 2 at least")
	case 2*len(o.sicknesses())*o.Runs*o.Changes > maxChanges:
		return fmt.Errorf("%d runs of %d changes: there are marks for %d changes in all", o.Runs, o.Changes, maxChanges)
	}
	return nil
}

// sicknesses are those that are measured.
func (o PressureOptions) sicknesses() []Sickness {
	if len(o.Only) == 0 {
		return Sicknesses()
	}
	return o.Only
}

// Pressure measures how long changes take to sidecars that are well, with others beside them that are not, and without, in turn. With an
// error the report holds what was measured.
func Pressure(ctx context.Context, o PressureOptions) (PressureReport, error) {
	o.Mesh.UnmanagedNamespaces, o.Mesh.UnmanagedServices, o.Mesh.UnmanagedPods, o.Mesh.UnmanagedApart = 1, o.Mesh.Services, o.Crowd, true
	r := PressureReport{Machine: measure.ThisMachine(), Mesh: o.Mesh}
	b, err := newBench(ctx, o.Options)
	if err != nil {
		return r, err
	}
	r.ControlPlane = b.plane.Describe(ctx)
	w := ward{bench: b, o: o}
	r.Rows, err = w.measure(ctx)
	return r, errors.Join(err, b.close(ctx))
}

// ward is a bench where some are sick.
type ward struct {
	*bench
	o PressureOptions
}

func (w *ward) measure(ctx context.Context) (rows []Pressed, err error) {
	if err := w.phase(ctx, connecting()); err != nil {
		return nil, err
	}
	progress := w.bench.o.Progress
	for _, s := range w.o.sicknesses() {
		row := Pressed{Sickness: s}
		for run := range w.o.Runs {
			w.bench.o.Progress = func(stage string, done, all int) {
				progress(fmt.Sprintf("%s, %d of %d: %s", s, run+1, w.o.Runs, stage), done, all)
			}
			var pair [2]Half // without, with
			for turn := range 2 {
				i := (turn + run) % 2 // who is first takes turns too
				if pair[i], err = w.half(ctx, s, i == 1); err != nil {
					return rows, fmt.Errorf("%s: %w", s, err)
				}
			}
			row.add(pair[0], pair[1])
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// half makes the changes once.
func (w *ward) half(ctx context.Context, s Sickness, sick bool) (h Half, err error) {
	before, err := w.plane.Usage(ctx)
	if err != nil {
		return h, err
	}
	cure := func() error { return nil }
	if sick {
		if cure, err = w.sicken(ctx, s); err != nil {
			return h, err
		}
	}
	peak := watch(looksEvery, func() int64 { return w.resident(ctx) })
	var p Phase
	err = w.change(ctx, &p, stream{kind: Endpoints, writes: w.bench.o.Changes, services: 1, rate: w.bench.o.Rate})
	seen, left := peak(), w.leftover(ctx)
	if err = errors.Join(err, cure()); err != nil {
		return h, err
	}
	after, err := w.plane.Usage(ctx)
	if err != nil {
		return h, err
	}
	h = Half{Latency: *p.Latency, CPU: Seconds(after.CPU - before.CPU), Peak: seen, Queued: left.own, Kernel: left.kernel}
	return h, w.calm(ctx, w.bench.o.Calm, calmWithin)
}

// sicken lets a sickness begin; cure ends it. Who is not part of a crowd has had everything by then.
func (w *ward) sicken(ctx context.Context, s Sickness) (cure func() error, err error) {
	switch s {
	case Storm:
		return w.storm(ctx, w.o.Mesh.Namespaces), nil
	case Tempest:
		return w.storm(ctx, 1), nil
	}
	number, first := w.o.Sick, w.o.Sidecars
	if s == Crowd {
		number, first = w.o.Crowd, w.o.Mesh.Pods
	}
	pods := make([]load.Pod, number)
	for i := range pods {
		pods[i] = w.pods.Pod(first + i)
	}
	patients, err := w.fleet.StartSick(pods, s)
	if err != nil {
		return nil, err
	}
	settled := func() error {
		return w.await(ctx, "waiting for those that are sick", nil, number, patients.Synced)
	}
	if s == Crowd {
		return func() error { return errors.Join(settled(), patients.Stop()) }, nil
	}
	if err := settled(); err != nil {
		return nil, errors.Join(err, patients.Stop())
	}
	return patients.Stop, nil
}

// stormEvery is how often a storm writes: so many changes as belong to that time.
const stormEvery = 10 * time.Millisecond

// storm changes endpoints of every so manieth service but the one that is measured, until it is told to end.
func (w *ward) storm(ctx context.Context, every int) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		pace := newPace(float64(time.Second / stormEvery))
		defer pace.stop()
		each := max(1, int(w.o.StormRate*stormEvery.Seconds()))
		for n := 0; ; n += each {
			if pace.wait(ctx) != nil {
				done <- nil
				return
			}
			if err := w.plane.Apply(ctx, w.bench.o.Mesh.Gusts(n, each, every)...); err != nil && ctx.Err() == nil {
				done <- err
				return
			}
		}
	}()
	return func() error { cancel(); return <-done }
}

// looksEvery is how often the control plane is looked at while changes are made: a look costs it a scrape of its metrics.
const looksEvery = 500 * time.Millisecond

// resident is the control plane's memory now; 0 if that cannot be told.
func (w *ward) resident(ctx context.Context) int64 {
	u, err := w.plane.Usage(ctx)
	if err != nil {
		return 0
	}
	return u.Resident
}

// queues are bytes that wait: in the control plane for all clients, and the most that the kernel has for one.
type queues struct{ own, kernel int64 }

// leftLooks within the time of a calm tell what waits for those that are sick: what waits for others is gone the next time.
const leftLooks = 5

// leftover is what waits when all changes have arrived: the least of a few looks.
func (w *ward) leftover(ctx context.Context) (least queues) {
	_, port, _ := net.SplitHostPort(w.plane.Address())
	number, _ := strconv.Atoi(port) // 0 has no connections
	pace := newPace(leftLooks / w.bench.o.Calm.Seconds())
	defer pace.stop()
	for i := range leftLooks {
		if pace.wait(ctx) != nil {
			break
		}
		u, err := w.plane.Usage(ctx)
		if err != nil {
			break
		}
		now := queues{u.Queued, measure.SendQueue(number)}
		if i == 0 {
			least = now
		}
		least = queues{min(least.own, now.own), min(least.kernel, now.kernel)}
	}
	return least
}

// PressureReport is what Pressure has found. Times are seconds, sizes bytes.
type PressureReport struct {
	Command      string                   `json:"command"`
	Lateen       string                   `json:"lateen"`
	ControlPlane controlplane.Description `json:"controlPlane"`
	Machine      measure.Machine          `json:"machine"`
	Mesh         load.Shape               `json:"mesh"`
	Rows         []Pressed                `json:"sicknesses"`
}

// Half are the changes of one run, to the sidecars that are well.
type Half struct {
	Latency measure.Summary `json:"latency"`
	CPU     Seconds         `json:"cpuSeconds"`
	// Peak is the most memory of the control plane that was seen. When all changes had arrived Queued waited in it, for all its clients
	// together, where its metrics tell (lateen_xds_queued_bytes), and Kernel in the kernel for that one of them for which the most did.
	Peak   int64 `json:"peakBytes"`
	Queued int64 `json:"queuedBytes"`
	Kernel int64 `json:"kernelBytes"`
}

// Pressed are the runs with one sickness, each with the run without it.
type Pressed struct {
	Sickness Sickness `json:"sickness"`
	Without  []Half   `json:"without"`
	With     []Half   `json:"with"`
	// Ratios are p99 with the sickness by p99 without, of each pair.
	Ratios []float64 `json:"p99Ratios"`
}

func (p *Pressed) add(without, with Half) {
	p.Without, p.With = append(p.Without, without), append(p.With, with)
	p.Ratios = append(p.Ratios, with.Latency.P99.Float()/max(without.Latency.P99.Float(), time.Microsecond.Seconds()))
}

// middle is the median of a number that halves have.
func middle[T cmp.Ordered](of []Half, number func(h *Half) T) T {
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
