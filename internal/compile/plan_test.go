package compile

import (
	"fmt"
	"maps"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/draws"
	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// A plan is what the step then is: the same classes and proxies, with the same resources, and the
// same problems. Plans that are thrown away leave no trace: each proxy has what it would have
// without them.
func TestPlanIsTheStep(t *testing.T) {
	if !draws.Given() {
		draws.Checks(t, "80")
	}
	rapid.Check(t, func(r *rapid.T) {
		o := newOracle(t)
		o.plans = true
		o.live(r, random, func(meshlife.Change, outcome) {})
	})
}

// planOf plans updates.
func (o *oracle) planOf(updates []meshlife.Update) Step {
	before, was := o.standing(), o.comp.nextID
	_, d := o.writer.Fork().Apply(stateUpdates(updates))
	if d.IsEmpty() {
		return Step{}
	}
	step := o.comp.Plan(d)
	o.requireStanding(before)
	require.Equal(o.tb, was, o.comp.nextID)
	o.requireReasons(step, d)
	return step
}

// planAnother plans what does not happen.
func (o *oracle) planAnother(t *rapid.T) {
	if !rapid.Bool().Draw(t, "plan another") {
		return
	}
	var updates []meshlife.Update
	for _, c := range random(t, o.history.Fork()) {
		updates = append(updates, c.Updates...)
	}
	o.planOf(updates)
}

// standing is what the compiler has of classes and proxies.
func (o *oracle) standing() map[any]any {
	all := map[any]any{"snapshot": o.comp.snapshot, "problems": len(o.comp.builder.problems.Current())}
	for key, cl := range o.comp.classes {
		all[key] = cl
		all[cl] = standingClass{cl.state, cl.members, len(cl.problems), len(cl.tables), len(cl.varied)}
		all[&cl.counted] = fmt.Sprint(cl.counted.of)
		for _, v := range cl.variants.list {
			all[v] = *v
		}
	}
	for m := range o.placed {
		all[m] = *m
	}
	return all
}

// requireStanding says that all is as it was before a plan.
func (o *oracle) requireStanding(before map[any]any) {
	now := o.standing()
	require.Len(o.tb, now, len(before))
	for of, was := range before {
		// a message of all that is reachable from a class helps nobody
		require.True(o.tb, assert.ObjectsAreEqual(was, now[of]), "a plan changed a %T", of)
	}
}

type standingClass struct {
	state                             resource.State
	members, problems, tables, varied int
}

// stepText is a step by its content: classes that it makes have no number yet.
type stepText struct {
	changed         map[resource.ClassID]string
	moved           map[*Member]string
	appeared, fixed []source.Problem
}

func (o *oracle) textOf(step Step, made func(resource.ClassID) bool) stepText {
	text := stepText{
		changed: map[resource.ClassID]string{}, moved: map[*Member]string{},
		appeared: step.Appeared, fixed: step.Fixed,
	}
	for _, c := range step.Changed {
		if !made(c.Class) {
			text.changed[c.Class] = rootText(c.State)
		}
	}
	for _, m := range step.Moved {
		text.moved[m.Member] = rootText(m.State) + m.Overlay.Pod + " " + m.Overlay.App + " " + m.Overlay.Outbound
	}
	return text
}

func rootText(s resource.State) string {
	text := ""
	for _, root := range roots(s) {
		text += string(root[:])
	}
	return text
}

// requireReasons looks at what a plan says of why: each changed class has causes, which the delta
// has.
func (o *oracle) requireReasons(step Step, d *state.Delta) {
	could := objectsIn(d)
	for id, by := range step.Causes {
		require.True(
			o.tb, len(by) > 0 || d.Mesh || len(d.Sidecars) > 0, "class %d is touched by nothing of %v", id, d.Changed,
		)
		for _, k := range by {
			require.True(o.tb, could[k], "class %d: %v is not in the delta", id, k)
		}
	}
}

// requirePlanned compares a step with its plan.
func (o *oracle) requirePlanned(planned, step Step, newest resource.ClassID) {
	made := func(id resource.ClassID) bool { return id > newest }
	want, got := o.textOf(step, made), o.textOf(planned, made)
	require.True(
		o.tb, maps.Equal(want.changed, got.changed), "classes: want %v, planned %v", step.Changed, planned.Changed,
	)
	require.True(o.tb, maps.Equal(want.moved, got.moved), "proxies: want %v, planned %v", step.Moved, planned.Moved)
	require.Equal(o.tb, want.appeared, got.appeared)
	require.Equal(o.tb, want.fixed, got.fixed)
}

// A plan costs what its step costs: it asks, compiles and translates as much, and leaves nothing
// behind but what it translated. The step then finds that.
func TestAPlanCostsItsStep(t *testing.T) {
	for name, change := range changesOfOneObject() {
		t.Run(name, func(t *testing.T) {
			planned, stepped := newMeshOf(t, 1000), newMeshOf(t, 1000)
			plan := planned.spentOn(func() {
				_, d := planned.writer.Fork().Apply([]state.Update{change})
				planned.compiler.Plan(d)
			})
			step := stepped.spentOn(func() { stepped.apply(change) })
			require.Equal(t, step, plan)
			planned.requireRemembers(t, change)
		})
	}
}

// requireRemembers requires that a step after its plan translates nothing.
func (m *meshOf) requireRemembers(t *testing.T, change state.Update) {
	before := m.compiler.Stats().Total().Misses
	m.apply(change)
	require.NotEmpty(t, m.last.Changed)
	misses := m.compiler.Stats().Total().Misses - before
	require.LessOrEqual(t, misses, uint64(1), "an assignment is each generation's own")
}

// spent is what something cost, in exact counts.
type spent struct {
	Work
	TranslateStats
}

func (m *meshOf) spentOn(do func()) spent {
	before := m.compiler.Stats().Total()
	work := m.workOf(do)
	after := m.compiler.Stats().Total()
	return spent{work, TranslateStats{
		Hits: after.Hits - before.Hits, Misses: after.Misses - before.Misses, Equal: after.Equal - before.Equal,
	}}
}

// Generations that are kept share what they have in common: each costs its difference, however
// large the mesh is.
func TestAKeptGenerationCostsItsDifference(t *testing.T) {
	const generations = 20
	of := func(services int) int {
		m := newMeshOf(t, services)
		m.apply(routesOfService(7, 1))
		runtime.GC()
		before, kept := m.compiler.Stats().Nodes, []Step{}
		for n := range generations {
			m.apply(routesOfService(7, 2+n))
			kept = append(kept, m.last)
		}
		runtime.GC()
		nodes := m.compiler.Stats().Nodes - before
		runtime.KeepAlive(kept)
		return nodes / generations
	}
	small, large := of(100), of(1000)
	require.LessOrEqual(t, small, namespaces+8, "a root for each class, and what they have in common")
	require.LessOrEqual(t, large, small+namespaces/10, "one level of the trie more, or two")
}
