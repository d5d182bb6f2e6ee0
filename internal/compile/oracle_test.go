package compile

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Whatever changes came in whatever steps, each proxy has what compiling the final snapshot from
// nothing gives it.
func TestIncrementalEqualsFromNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { newOracle(t).live(r, random, func(meshlife.Change, outcome) {}) })
}

// oracle drives a compiler through the life of a mesh, and compares it at each step with one that
// knows nothing of before.
type oracle struct {
	refused Refusals
	history *meshlife.History
	writer  *state.Writer
	comp    *Compiler
	kinds   []unitKind
	placed  map[*Member]Placement
	// wanted is what each proxy should have had after the step before.
	wanted map[*Member]wanted
	steps  memberSteps
	// slow are proxies whose classes are built while generations run.
	slow []Facts
	// acceptable are states that were looked at.
	acceptable map[resource.State]bool
	plans      bool // each step is planned first
	tb         testing.TB
}

// wanted is what compiling from nothing gives a proxy.
type wanted struct {
	class classText
	near  model.Labels // what decides at its place
	keys  string       // what of it does
	roots [resource.NumTypes]resource.Version
	own   resource.Overlay
}

// classText is a class by its content, to be compared across classifiers.
type classText struct {
	class     scope.Class // without its lists
	selectors []model.Labels
	inbound   []scope.Inbound
	conflicts []scope.PortConflict
	services  []scope.PortService
	binds     []scope.Bind
	pools     []scope.PortPool
	matches   []model.ProxyMatch
}

// outcome is what a step did to the proxies that stayed connected.
type outcome struct {
	effect bool // some proxy gets another configuration
	moved  bool // some proxy is of another class
}

func newOracle(tb testing.TB) *oracle { return oracleOf(tb, unitKinds()) }

func oracleOf(tb testing.TB, kinds []unitKind) *oracle {
	refused := refuseNothing(tb)
	return &oracle{
		refused: refused, history: meshlife.NewHistory(), writer: crowdedWriter(),
		comp: newCompiler(refused, kinds), kinds: kinds,
		placed: map[*Member]Placement{}, wanted: map[*Member]wanted{}, acceptable: map[resource.State]bool{},
		steps: newMemberSteps(), tb: tb,
	}
}

// crowdedWriter has few addresses for hosts without any, so that hosts are in each other's way.
func crowdedWriter() *state.Writer {
	few, err := state.NewAutoRange(netip.MustParsePrefix("240.240.0.0/29"), netip.MustParsePrefix("2001:2::/48"))
	if err != nil {
		panic(err)
	}
	w := state.NewWriter()
	w.AllocateFrom(few)
	return w
}

// refuseNothing fails a test in which something is refused.
func refuseNothing(tb testing.TB) Refusals {
	return Refusals{
		Endpoint: func(e model.Endpoint, err error) { tb.Errorf("endpoint %v: %v", e, err) },
		Resource: func(name string, err error) { tb.Errorf("%s: %v", name, err) },
		Patch:    func(RefusedPatch) {}, // of random ones, some do not fit
	}
}

// random is a batch of any changes.
func random(t *rapid.T, h *meshlife.History) []meshlife.Change {
	changes := []meshlife.Change{h.Next(t)}
	for range rapid.SampledFrom([]int{0, 0, 2, 6, 12}).Draw(t, "beside it") {
		changes = append(changes, h.Next(t))
	}
	return changes
}

// live draws a mesh and what happens to it: next draws a batch of changes, and count is told what
// each did that came alone.
func (o *oracle) live(
	t *rapid.T, next func(*rapid.T, *meshlife.History) []meshlife.Change, count func(meshlife.Change, outcome),
) {
	for _, f := range oracleProxies() {
		if rapid.Bool().Draw(t, "early") {
			o.join(f)
		}
	}
	o.apply(t, o.history.Begin(t))
	o.comp.chunkSize = rapid.IntRange(1, 8).Draw(t, "slice")
	slow := rapid.IntRange(0, len(oracleProxies())-1).Draw(t, "slow")
	for i, f := range oracleProxies() {
		if i == slow {
			o.slow = append(o.slow, f)
			continue
		}
		o.join(f)
	}
	o.compare(t)
	for range rapid.SampledFrom([]int{2, 12, 24}).Draw(t, "steps") {
		if rapid.IntRange(0, 5).Draw(t, "come and go") == 5 {
			o.comeAndGo(t)
		}
		if rapid.IntRange(0, 5).Draw(t, "sweep") == 5 {
			o.comp.forgetUnused()
		}
		o.buildChunks(rapid.IntRange(0, 4).Draw(t, "slices"))
		changes := next(t, o.history)
		if did := o.change(t, changes); len(changes) == 1 {
			count(changes[0], did)
		}
	}
	for len(o.slow) > 0 {
		o.buildChunks(1)
	}
	o.compare(t)
}

// buildChunks compiles some more chunks for the proxy that has waited longest.
func (o *oracle) buildChunks(slices int) {
	for range slices {
		if len(o.slow) == 0 {
			return
		}
		f := o.slow[0]
		m := newMember(f)
		if o.comp.tryJoin(m, f.Stated, func(m *Member, p Placement) { o.placed[m] = p }) {
			o.comp.abandonBuild()
			o.slow = o.slow[1:]
			continue
		}
		o.comp.buildFor(m, f.Stated)
	}
}

// change is one step: changes in one batch.
func (o *oracle) change(t *rapid.T, changes []meshlife.Change) outcome {
	var updates []meshlife.Update
	for _, c := range changes {
		updates = append(updates, c.Updates...)
	}
	before := maps.Clone(o.wanted)
	step, published := o.apply(t, updates)
	if same := changes[0].Verb == meshlife.Resend || changes[0].Verb == meshlife.Relist; same && len(changes) == 1 {
		require.False(t, published, "equal content makes no generation")
	}
	o.compare(t)
	did := o.outcomeSince(before)
	o.requireQuiet(t, step, before)
	return did
}

func (o *oracle) join(f Facts) {
	o.comp.Join(f, func(m *Member, p Placement) { o.placed[m] = p })
}

func (o *oracle) comeAndGo(t *rapid.T) {
	for _, f := range rapid.SliceOfN(rapid.SampledFrom(oracleProxies()), 0, 2).Draw(t, "coming") {
		if rapid.Bool().Draw(t, "slowly") {
			o.slow = append(o.slow, f)
			continue
		}
		o.join(f)
	}
	for _, m := range o.members() {
		if rapid.IntRange(0, 4).Draw(t, "goes") == 0 {
			o.comp.Leave(m)
			delete(o.placed, m)
			delete(o.wanted, m)
		}
	}
}

func (o *oracle) members() []*Member {
	return slices.SortedFunc(
		maps.Keys(o.placed),
		func(a, b *Member) int { return cmp.Compare(a.known.Proxy.Address, b.known.Proxy.Address) },
	)
}

// applyHeld applies updates in two steps at times, of which only the second is published.
func (o *oracle) applyHeld(t *rapid.T, updates []state.Update) (*state.Snapshot, *state.Delta) {
	n := 0
	if len(updates) > 1 && rapid.IntRange(0, 3).Draw(t, "in two steps") == 3 {
		n = len(updates) / 2
	}
	_, first := o.writer.Apply(updates[:n])
	to, second := o.writer.Apply(updates[n:])
	return to, first.Compose(second)
}

// apply takes the snapshot and the compiler one step further, as the pipeline does. published
// reports whether there was one.
func (o *oracle) apply(t *rapid.T, updates []meshlife.Update) (step Step, published bool) {
	from, newest := o.writer.Snapshot(), o.comp.nextID
	var planned Step
	var foreseen Foresight
	had := maps.Clone(o.placed)
	if o.plans {
		o.planAnother(t)
		planned, foreseen = o.planOf(updates), o.foreseen(updates)
	}
	to, d := o.applyHeld(t, stateUpdates(updates))
	if d.IsEmpty() {
		return step, false
	}
	require.Same(t, from, d.From)
	require.Same(t, to, d.To)
	o.comp.Advance(d, func(s Step) {
		step = s
		step.Changed = slices.Clone(s.Changed)
	})
	if o.plans {
		o.requirePlanned(planned, step, newest)
	}
	for _, m := range step.Moved {
		o.placed[m.Member] = m.Placement
	}
	for _, changed := range step.Changed {
		for m, p := range o.placed {
			if p.Class == changed.Class {
				p.State = changed.State
				o.placed[m] = p
			}
		}
	}
	if o.plans && d.From.Generation > 0 {
		o.requireForeseen(foreseen, had)
	}
	o.requireBefore(step, had)
	return step, true
}

// requireBefore checks that a step says of each proxy what it had: the state of its class before,
// and the class that it left.
func (o *oracle) requireBefore(step Step, had map[*Member]Placement) {
	was := map[resource.ClassID]resource.State{}
	for _, changed := range step.Changed {
		was[changed.Class] = changed.Was
	}
	moved := map[*Member]bool{}
	for _, m := range step.Moved {
		moved[m.Member] = true
		before, stepped := was[m.From]
		if !stepped {
			before = m.Was
		}
		require.Equal(o.tb, had[m.Member].Class, m.From)
		require.True(o.tb, had[m.Member].State.Equal(before))
	}
	for m, p := range had {
		switch before, changed := was[p.Class]; {
		case moved[m]:
		case changed:
			require.True(o.tb, p.State.Equal(before))
		default:
			require.True(o.tb, p.State.Equal(o.placed[m].State))
		}
	}
}

func stateUpdates(updates []meshlife.Update) []state.Update {
	var list []state.Update
	for _, u := range updates {
		list = append(list, state.Update{Key: u.Key, Objects: u.Objects})
	}
	return list
}

// compare looks at each proxy: what it was told to have is what a compiler without a past gives it,
// of copies of the present objects, in whatever order they came.
func (o *oracle) compare(t *rapid.T) {
	fresh := newCompiler(o.refused, o.kinds)
	fresh.noSharing = true
	w := crowdedWriter()
	for _, u := range rapid.Permutation(stateUpdates(o.history.Present())).Draw(t, "order") {
		w.Apply([]state.Update{u})
	}
	fresh.snapshot = w.Snapshot()
	for _, m := range o.members() {
		got := o.placed[m]
		fresh.Join(m.facts(), func(same *Member, p Placement) {
			require.Equal(t, p.Overlay, got.Overlay)
			want := wanted{
				class: textOf(same.variant.class.key),
				near:  same.variant.near,
				keys:  strings.Join(same.variant.class.placeLabels, " "),
				roots: roots(p.State),
				own:   p.Overlay,
			}
			require.Equal(t, want.near, m.variant.near)
			require.Equal(t, same.variant.class.placeLabels, m.variant.class.placeLabels)
			require.True(t, want.class.equal(
				textOf(m.variant.class.key),
			), "want class %v, got %v", same.variant.class.key, m.variant.class.key)
			o.wanted[m] = want
			if same.variant.members == 1 { // its first
				requireEqualStates(t, m, p.State, got.State)
				require.Equal(t, matchesIn(same), matchesIn(m))
			}
		})
		o.steps.compare(t, m, got.State)
		if !o.acceptable[got.State] {
			o.acceptable[got.State] = true
			requireAcceptable(t, got.State)
		}
	}
	if o.comp.building == nil { // one that grows tells what it finds
		require.Equal(t, fresh.problems(), o.comp.problems())
		require.Equal(t, fresh.PatchMatches(), o.comp.PatchMatches())
	}
	for _, c := range o.comp.classes {
		for name, table := range c.tables {
			require.True(t, table.head != nil || table.vhosts == 0, "virtual hosts of %s are in no table", name)
			require.Len(t, slices.Collect(c.state.Set(resource.VirtualHost).Under(name)), table.vhosts, name)
		}
	}
}

// matchesIn are what patches match of what a proxy has, by the resource.
func matchesIn(m *Member) map[string][]match {
	found := map[string][]match{}
	for r := range m.variant.class.matches.All() {
		found[r.Name()] = decodeMatches(r)
	}
	return found
}

func requireEqualStates(t *rapid.T, m *Member, want, got resource.State) {
	if w, g := dump(want), dump(got); !maps.Equal(w, g) {
		t.Fatalf(
			"proxy %s in %s (- from nothing, + step by step):\n%s", m.known.Proxy.Name, m.known.Proxy.Namespace,
			gocmp.Diff(w, g),
		)
	}
	require.Equal(t, roots(want), roots(got), "sets have no history")
	require.Equal(t, want.Tables().Root(), got.Tables().Root(), "whole tables have none either")
	require.Equal(t, want.Size(), got.Size())
}

func (o *oracle) outcomeSince(before map[*Member]wanted) outcome {
	var did outcome
	for m, now := range o.wanted {
		was, stayed := before[m]
		if !stayed {
			continue
		}
		did.effect = did.effect || was.roots != now.roots || was.own != now.own
		did.moved = did.moved || !was.class.equal(now.class)
	}
	return did
}

// requireQuiet checks that a step tells of no class or proxy for which nothing changed.
func (o *oracle) requireQuiet(t *rapid.T, step Step, before map[*Member]wanted) {
	for _, c := range step.Changed {
		for m, p := range o.placed {
			if was, stayed := before[m]; stayed && p.Class == c.Class && was.class.equal(o.wanted[m].class) {
				require.NotEqual(
					t, was.roots, o.wanted[m].roots, "class %d is told as changed and is as it was", c.Class,
				)
			}
		}
	}
	for _, m := range step.Moved {
		was, now := before[m.Member], o.wanted[m.Member]
		require.True(
			t, !was.class.equal(now.class) || was.near != now.near || was.keys != now.keys || was.own != now.own,
			"a proxy is told as moved and is where it was",
		)
	}
}

func textOf(c scope.Class) classText {
	text := classText{
		class: c, selectors: slices.Collect(c.Selectors.All()), inbound: slices.Collect(c.Inbound.All()),
		conflicts: slices.Collect(c.PortConflicts.All()), services: slices.Collect(c.PortServices.All()),
		binds: slices.Collect(c.Binds.All()), pools: slices.Collect(c.Pools.All()),
		matches: slices.Collect(c.ProxyMatches.All()),
	}
	text.class.ProxyMatches = nil
	text.class.Selectors, text.class.Binds, text.class.Pools = nil, nil, nil
	text.class.Inbound, text.class.PortConflicts, text.class.PortServices = nil, nil, nil
	return text
}

func (c classText) equal(o classText) bool {
	return c.class == o.class && slices.Equal(c.selectors, o.selectors) && slices.Equal(c.inbound, o.inbound) &&
		slices.Equal(c.conflicts, o.conflicts) && slices.Equal(c.services, o.services) &&
		slices.Equal(c.binds, o.binds) && slices.Equal(c.matches, o.matches) &&
		slices.EqualFunc(c.pools, o.pools, func(a, b scope.PortPool) bool {
			return a.Port == b.Port && model.Equal(a.Pool, b.Pool)
		})
}

func dump(s resource.State) map[string]resource.Version {
	out := map[string]resource.Version{}
	for t, set := range s.Sets() {
		for r := range set.All() {
			out[resource.Type(t).String()+" "+r.Name()] = r.Version()
		}
	}
	return out
}

func roots(s resource.State) [resource.NumTypes]resource.Version {
	var out [resource.NumTypes]resource.Version
	for t, set := range s.Sets() {
		out[t] = set.Root()
	}
	return out
}
