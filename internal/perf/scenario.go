package perf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Scenario is what is done with a control plane and its sidecars once the mesh is loaded.
type Scenario struct {
	Name  string
	steps []step
	// capacity makes a row of the capacity table. It is nil for scenarios without one.
	capacity func(o Options, phases []Phase) Capacity
}

type step struct {
	name string
	run  func(b *testbed, ctx context.Context, p *Phase) error
	// endsProcess is set if the step ends the measured process, and with it any profile that is
	// being recorded. Such a step starts a profile of the next process itself.
	endsProcess bool
}

// connectStep connects all sidecars and gateways.
func connectStep() step {
	return step{name: "connect", run: func(b *testbed, ctx context.Context, p *Phase) error {
		return b.connect(ctx, p, b.o.Sidecars+b.o.Mesh.Routers())
	}}
}

// changeStep makes Options.Changes changes of a kind at Options.Rate.
func changeStep(k Kind) step {
	return step{name: string(k), run: func(b *testbed, ctx context.Context, p *Phase) error {
		return b.change(ctx, p, steadyChanges{kind: k, writes: b.o.Changes, services: 1, rate: b.o.Rate})
	}}
}

func steadyStep(name string, s steadyChanges) step {
	return step{name: name, run: func(b *testbed, ctx context.Context, p *Phase) error { return b.change(ctx, p, s) }}
}

// Steady makes changes of one kind at a steady rate.
func Steady(k Kind) Scenario {
	return Scenario{Name: string(k), steps: []step{connectStep(), changeStep(k)}}
}

// Restart restarts the control plane while its sidecars are connected.
func Restart() Scenario {
	return Scenario{Name: "restart", steps: []step{connectStep(), restarting()}}
}

func restarting() step { return step{name: "restart", run: (*testbed).restart, endsProcess: true} }

// All does everything with one mesh: sidecars connect, each kind of change is made, the control
// plane sends everything anew if it can be told to, all sidecars connect as new ones (their
// configuration may be cached by then), and the control plane restarts.
func All() Scenario {
	return Scenario{Name: "all", steps: []step{
		connectStep(), changeStep(Endpoints), changeStep(Routes), changeStep(Services), {
			name: "warm", run: (*testbed).warm,
		},
		{name: "connect again", run: (*testbed).reconnect}, restarting(),
	}}
}

// Churn replaces a percentage of the sidecars. With 0, only endpoints of pods without sidecars
// change.
func Churn(percent int) Scenario {
	s := Scenario{Name: "churn", steps: []step{connectStep()}}
	if percent == 0 {
		s.steps = append(s.steps, changeStep(Endpoints))
	} else {
		s.steps = append(s.steps, step{
			name: "churn", run: func(
				b *testbed, ctx context.Context, p *Phase,
			) error {
				return b.churn(ctx, p, percent)
			},
		})
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

// ManyServices connects sidecars that see many services, and changes one route.
func ManyServices() Scenario {
	return Scenario{Name: "services", steps: []step{connectStep(), changeStep(Routes)}, capacity: capacityOf}
}

// Namespaces makes each kind of change in a mesh of many namespaces, with isolation or without.
func Namespaces() Scenario {
	return Scenario{Name: "namespaces", steps: []step{
		connectStep(), changeStep(Endpoints), changeStep(Routes), changeStep(Services),
	}}
}

// capacityOf makes a row from the phases load, connect and one of changes.
func capacityOf(o Options, phases []Phase) Capacity {
	connect, last := phases[1], phases[len(phases)-1]
	c := Capacity{Services: o.Mesh.Services, Sidecars: o.Sidecars, Memory: max(
		last.Peak, last.Resident,
	), Cores: connect.Cores()}
	if last.Latency != nil {
		c.P99 = max(last.Latency.P99, last.removalP99())
	}
	return c
}

// removalP99 returns 0 if no removal was timed.
func (p *Phase) removalP99() Seconds {
	if p.Removal == nil {
		return 0
	}
	return p.Removal.P99
}

// Run runs a scenario. On error the report holds the phases that were completed.
func Run(ctx context.Context, o Options, s Scenario) (Report, error) {
	r := Report{Scenario: s.Name, Machine: measure.ThisMachine(), Mesh: o.Mesh}
	b, err := newTestbed(ctx, o)
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
		row.Sustained = true
		r.Capacity = []Capacity{row}
	}
	return r, err
}

// Limits are what a control plane must stay within to sustain a number of sidecars.
type Limits struct {
	P99    time.Duration // of the time from a change to a sidecar
	Memory int64         // peak of the control plane, in bytes
	// From is the number that is tried first, and Most the largest.
	From, Most int
}

// searchPrecision is how near the result is to the limit, as a share of it.
const searchPrecision = 0.05

// FindCapacity searches for the largest number of sidecars within the limits. Each run of the
// scenario has a fresh control plane. The report has a row for each run, the phases of the last run
// within the limits, and the row of the result again at the end.
func FindCapacity(ctx context.Context, o Options, s Scenario, l Limits) (Report, error) {
	if s.capacity == nil {
		return Report{}, fmt.Errorf("%s: no capacity can be searched for", s.Name)
	}
	var found Report
	var rows []Capacity
	best, err := search{
		from: l.From, most: l.Most, precision: searchPrecision,
	}.run(ctx, func(ctx context.Context, n int) (bool, error) {
		o.Sidecars, o.Mesh.Pods = n, max(n, o.Mesh.Services)
		r, err := Run(ctx, o, s)
		if errors.Is(err, errStalled) && ctx.Err() == nil {
			rows = append(rows, Capacity{Services: o.Mesh.Services, Sidecars: n, Why: err.Error()})
			return false, nil
		}
		if err != nil {
			return false, err
		}
		row := r.Capacity[0]
		row.Why = l.exceeded(row)
		row.Sustained = row.Why == ""
		rows = append(rows, row)
		if row.Sustained || found.Scenario == "" {
			found = r
		}
		return row.Sustained, nil
	})
	if best == 0 { // no run was within the limits: report the rows only
		found = Report{Scenario: s.Name, Machine: measure.ThisMachine(), Mesh: o.Mesh, ControlPlane: found.ControlPlane}
		if err == nil {
			found.Notes = []string{"no number of sidecars keeps these limits"}
		}
	}
	found.Capacity = rows
	for _, row := range rows {
		if row.Sustained && row.Sidecars == best {
			found.Capacity = append(found.Capacity, row)
			break
		}
	}
	return found, err
}

// exceeded names the limit that a row exceeds, or returns "".
func (l Limits) exceeded(c Capacity) string {
	if p99 := time.Duration(c.P99); p99 > l.P99 {
		return fmt.Sprintf("p99 %v, want %v at most", p99.Round(time.Millisecond), l.P99)
	}
	if c.Memory > l.Memory {
		return fmt.Sprintf("%d MiB, want %d at most", c.Memory>>20, l.Memory>>20)
	}
	return ""
}
