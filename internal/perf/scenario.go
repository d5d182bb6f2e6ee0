package perf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Scenario is what is done with a control plane and its sidecars once the mesh is there.
type Scenario struct {
	Name  string
	steps []step
	// capacity makes a row of the tables of sidecars that a control plane bears; nil for scenarios that have none.
	capacity func(o Options, phases []Phase) Capacity
}

type step struct {
	name string
	run  func(b *bench, ctx context.Context, p *Phase) error
	// ends tells that the process that is measured ends meanwhile, and what it records of itself with it: the step begins a profile
	// itself, of the next process.
	ends bool
}

// connecting lets all sidecars connect, and gateways.
func connecting() step {
	return step{name: "connect", run: func(b *bench, ctx context.Context, p *Phase) error {
		return b.connect(ctx, p, b.o.Sidecars+b.o.Mesh.Routers())
	}}
}

// changing makes as many changes of a kind as the options say, at their rate.
func changing(k Kind) step {
	return step{name: string(k), run: func(b *bench, ctx context.Context, p *Phase) error {
		return b.change(ctx, p, stream{kind: k, writes: b.o.Changes, services: 1, rate: b.o.Rate})
	}}
}

func streaming(name string, s stream) step {
	return step{name: name, run: func(b *bench, ctx context.Context, p *Phase) error { return b.change(ctx, p, s) }}
}

// Steady makes changes of one kind at a steady rate.
func Steady(k Kind) Scenario {
	return Scenario{Name: string(k), steps: []step{connecting(), changing(k)}}
}

// Restart lets the control plane end and start again under its sidecars.
func Restart() Scenario {
	return Scenario{Name: "restart", steps: []step{connecting(), restarting()}}
}

func restarting() step { return step{name: "restart", run: (*bench).restart, ends: true} }

// All does with one mesh what can be done in turn: sidecars connect, each kind of change is made, the control plane sends everything anew
// if it can be told to, all connect again as new ones, whose configuration it now may have at hand, and it restarts.
func All() Scenario {
	return Scenario{Name: "all", steps: []step{
		connecting(), changing(Endpoints), changing(Routes), changing(Services), {name: "warm", run: (*bench).warm},
		{name: "connect again", run: (*bench).again}, restarting(),
	}}
}

// Churn lets so many of a hundred sidecars go and others come in their place; with 0 only endpoints change, without sidecars.
func Churn(percent int) Scenario {
	s := Scenario{Name: "churn", steps: []step{connecting()}}
	if percent == 0 {
		s.steps = append(s.steps, changing(Endpoints))
	} else {
		s.steps = append(s.steps, step{name: "churn", run: func(b *bench, ctx context.Context, p *Phase) error { return b.churn(ctx, p, percent) }})
	}
	s.capacity = func(o Options, phases []Phase) Capacity {
		c := capacityOf(o, phases)
		if c.Churn = percent; percent > 0 {
			c.Rate, c.Cores = phases[len(phases)-1].Rate, phases[len(phases)-1].Cores()
		}
		return c
	}
	return s
}

// ManyServices is about sidecars of many services: they connect, and one route is changed.
func ManyServices() Scenario {
	return Scenario{Name: "services", steps: []step{connecting(), changing(Routes)}, capacity: capacityOf}
}

// Namespaces is about a mesh of many namespaces, with and without isolation: each kind of change is made.
func Namespaces() Scenario {
	return Scenario{Name: "namespaces", steps: []step{connecting(), changing(Endpoints), changing(Routes), changing(Services)}}
}

// capacityOf is a row from the phases load, connect and one of changes.
func capacityOf(o Options, phases []Phase) Capacity {
	connect, last := phases[1], phases[len(phases)-1]
	c := Capacity{Services: o.Mesh.Services, Sidecars: o.Sidecars, Memory: max(last.Peak, last.Resident), Cores: connect.Cores()}
	if last.Latency != nil {
		c.P99 = max(last.Latency.P99, last.removalP99())
	}
	return c
}

// removalP99 is 0 where no removal was timed.
func (p *Phase) removalP99() Seconds {
	if p.Removal == nil {
		return 0
	}
	return p.Removal.P99
}

// Run runs a scenario. With an error the report holds the phases that were done.
func Run(ctx context.Context, o Options, s Scenario) (Report, error) {
	r := Report{Scenario: s.Name, Machine: measure.ThisMachine(), Mesh: o.Mesh}
	b, err := newBench(ctx, o)
	if err != nil {
		return r, err
	}
	r.ControlPlane = b.plane.Describe(ctx)
	for _, step := range s.steps {
		if err = b.phase(ctx, step); err != nil {
			break
		}
	}
	r.Phases = b.phases
	if err = errors.Join(err, b.close(ctx)); err == nil && s.capacity != nil {
		row := s.capacity(o, r.Phases)
		row.Borne = true
		r.Capacity = []Capacity{row}
	}
	return r, err
}

// Limits are what a control plane has to keep for a number of sidecars to count as borne.
type Limits struct {
	P99    time.Duration // of the time from a change to a sidecar
	Memory int64         // bytes that the control plane has at its peak
	// From is the number that is tried first, Most the largest.
	From, Most int
}

// exactness is how near the number found is to the limit.
const exactness = 0.05

// FindCapacity runs a scenario with more and fewer sidecars, each time with a fresh control plane, until the largest number is known
// that keeps the limits. The report has a row for each run, the phases of the last run that kept them, and the number's row again at
// the end.
func FindCapacity(ctx context.Context, o Options, s Scenario, l Limits) (Report, error) {
	if s.capacity == nil {
		return Report{}, fmt.Errorf("%s: no capacity can be searched for", s.Name)
	}
	var found Report
	var rows []Capacity
	best, err := search{from: l.From, most: l.Most, exact: exactness}.run(ctx, func(ctx context.Context, n int) (bool, error) {
		o.Sidecars, o.Mesh.Pods = n, max(n, o.Mesh.Services)
		r, err := Run(ctx, o, s)
		if errors.Is(err, errStill) && ctx.Err() == nil {
			rows = append(rows, Capacity{Services: o.Mesh.Services, Sidecars: n, Why: err.Error()})
			return false, nil
		}
		if err != nil {
			return false, err
		}
		row := r.Capacity[0]
		row.Why = l.passed(row)
		row.Borne = row.Why == ""
		rows = append(rows, row)
		if row.Borne || found.Scenario == "" {
			found = r
		}
		return row.Borne, nil
	})
	if best == 0 { // of what was too much no more than the rows is told
		found = Report{Scenario: s.Name, Machine: measure.ThisMachine(), Mesh: o.Mesh, ControlPlane: found.ControlPlane}
		if err == nil {
			found.Notes = []string{"no number of sidecars keeps these limits"}
		}
	}
	found.Capacity = rows
	for _, row := range rows {
		if row.Borne && row.Sidecars == best {
			found.Capacity = append(found.Capacity, row)
			break
		}
	}
	return found, err
}

// passed says which limit a row does not keep, or nothing.
func (l Limits) passed(c Capacity) string {
	if p99 := time.Duration(c.P99); p99 > l.P99 {
		return fmt.Sprintf("p99 %v, want %v at most", p99.Round(time.Millisecond), l.P99)
	}
	if c.Memory > l.Memory {
		return fmt.Sprintf("%d MiB, want %d at most", c.Memory>>20, l.Memory>>20)
	}
	return ""
}
