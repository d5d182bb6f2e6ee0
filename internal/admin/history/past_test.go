package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// proxyLife is a proxy that is brought from state to state, in one class or another.
type proxyLife struct {
	recorder *Recorder
	store    *Store
	now      Proxy
	at       time.Time
	n        uint64
	last     resource.ClassID // the newest class
	known    time.Time        // since when something is known of it
	had      map[time.Time]resource.State
}

func newProxyLife(budget int) *proxyLife {
	store := NewStore(budget)
	l := &proxyLife{
		store: store, recorder: NewRecorder(Options{Store: store, Dropped: func() { panic("a report was dropped") }}),
		now: Proxy{Name: "web.shop", Class: 1, State: resource.NewState(1)}, at: begin,
		had: map[time.Time]resource.State{}, last: 9,
	}
	l.publish(Published{})
	return l
}

// restart has another control plane go on, whose classes have other numbers.
func (l *proxyLife) restart() {
	l.recorder = NewRecorder(Options{Store: l.store, Dropped: func() { panic("a report was dropped") }})
	l.now.Class, l.last, l.store.returns = 1, 9, returns{}
	l.publish(Published{})
	l.known = l.at
}

// reconnect has the proxy come back, as the first of a class that is made in place of its own.
func (l *proxyLife) reconnect(is resource.State) {
	l.last++
	l.recorder.Return(Return{
		At: l.at.Add(time.Second / 2), From: l.now.Class, To: l.last, Was: l.now.State, State: is,
	})
	l.store.addReturn((<-l.recorder.reports).(Return))
	l.now.Class, l.now.State = l.last, is
}

// publish publishes a generation, a second after the last.
func (l *proxyLife) publish(p Published) {
	l.n, l.at = l.n+1, l.at.Add(time.Second)
	p.Generation, p.At, p.LastClass = l.n, l.at, l.last
	l.recorder.Publish(p)
	c := (<-l.recorder.reports).(caused)
	e := l.recorder.entryOf(&c)
	l.store.add(&e)
	l.had[l.at] = l.now.State
}

// get gives the proxy's class another state.
func (l *proxyLife) get(is resource.State) {
	was := l.now.State
	l.now.State = is
	l.publish(Published{States: []resource.ClassState{{Class: l.now.Class, Was: was, State: is}}})
}

// move gives the proxy another class, whose state it gets, while the state of its class changes.
func (l *proxyLife) move(class resource.ClassID, is resource.State, left resource.State) {
	l.last = max(l.last, class)
	m := Move{Proxy: l.now.Name, From: l.now.Class, To: class, Was: l.now.State, State: is}
	p := Published{Moved: []Move{m}}
	if !left.IsNone() {
		p.Moved[0].Was = left
		p.States = []resource.ClassState{{Class: l.now.Class, Was: l.now.State, State: left}}
	}
	l.now.Class, l.now.State = class, is
	l.publish(p)
}

// requireSame checks that two states have the same names, versions and contents.
func requireSame(t require.TestingT, want, got resource.State, at string) {
	for typ := range resource.NumTypes {
		require.Equal(t, want.Set(typ).Names(), got.Set(typ).Names(), at)
		for _, name := range want.Set(typ).Names() {
			require.Equal(t, want.Set(typ).Get(name).Version(), got.Set(typ).Get(name).Version(), at)
			require.Equal(t, want.Set(typ).Get(name).Body(), got.Set(typ).Get(name).Body(), at)
		}
	}
}

// drawState draws a state with resources of several types.
func drawState(t *rapid.T) resource.State {
	store, state := resource.NewStore(), resource.NewState(1)
	content := rapid.IntRange(0, 3)
	var clusters, hosts, heads []*resource.Resource
	for n := range 4 {
		if v := content.Draw(t, "cluster"); v > 0 {
			clusters = append(clusters, resource.NewWith(fmt.Sprint("c", n), fmt.Appendf(nil, "body %d", v),
				resource.Traits{Placeholders: v == 3}))
		}
		if v := content.Draw(t, "virtual host"); v > 0 {
			hosts = append(hosts, resource.NewVirtualHost("80", fmt.Sprint("h", n), []byte{0x12, 1, byte('a' + v)},
				resource.Refs{}))
		}
	}
	if v := content.Draw(t, "table"); v > 0 {
		heads = append(heads, resource.NewTableHead("80", []byte{0x0a, 2, '8', '0'}))
	}
	return state.With(resource.Cluster, store.Build(clusters...)).With(resource.VirtualHost, store.Build(hosts...)).
		With(resource.Route, store.Build(heads...))
}

// TestAPastIsWhatThereWas: whatever a proxy got, and through whatever classes it went, the state at
// each time is the one that it had, route tables included.
func TestAPastIsWhatThereWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const small, large = 20_000, 1 << 20
		budget := rapid.SampledFrom([]int{small, large}).Draw(t, "budget")
		l := newProxyLife(budget)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 20).Draw(t, "step") {
			default:
				l.get(drawState(t))
			case 1, 2, 3, 4:
				l.move(l.last+1, drawState(t), resource.State{})
			case 5, 6, 7, 8:
				l.move(l.last+1, drawState(t), drawState(t))
			case 9, 10:
				if budget == large { // else what differs then has no place
					l.reconnect(drawState(t))
				}
			case 11:
				l.restart()
			}
		}
		since := l.store.since()
		for at, want := range l.had {
			got, forgotten, err := l.store.At(l.now, at)
			switch {
			case at.Before(since):
				require.ErrorContains(t, err, "nothing is remembered of before")
				continue
			case at.Before(l.known):
				require.Error(t, err)
				continue
			}
			require.NoError(t, err)
			require.Empty(t, forgotten)
			requireSame(t, want, got, at.String())
			require.Equal(t, bodies(want.Tables()), bodies(got.Tables()))
		}
	})
}

func bodies(s *resource.Set) (all []string) {
	for r := range s.All() {
		all = append(all, r.Name()+string(r.Body()))
	}
	return all
}

// TestWhatIsForgottenIsSaid: of large resources the version is known, and where too much changed at
// once nothing.
func TestWhatIsForgottenIsSaid(t *testing.T) {
	l := newProxyLife(64 << 20)
	large := string(make([]byte, maxBody+1))
	l.get(states(map[string]string{"large": large, "small": "1"}))
	before := l.at
	l.get(states(map[string]string{"large": large + "2", "small": "2"}))
	was, forgotten, err := l.store.At(l.now, before)
	require.NoError(t, err)
	require.Equal(t, []string{"cds large"}, forgotten)
	got := was.Set(resource.Cluster).Get("large")
	require.Equal(t, l.had[before].Set(resource.Cluster).Get("large").Version(), got.Version())
	require.Equal(t, resource.NameOnly("large"), got.Body())
	forms, _, err := l.store.Forms(l.now, resource.Cluster, "large")
	require.NoError(t, err)
	require.True(t, forms[1].Forgotten)

	many := map[string]string{}
	for n := range maxUndo + 1 {
		many[fmt.Sprint(n)] = "1"
	}
	l.get(states(many))
	_, _, err = l.store.At(l.now, before)
	require.ErrorContains(t, err, tooMuch)
	_, _, err = l.store.At(l.now, l.at)
	require.NoError(t, err)
	found, _ := l.store.Select(Query{Proxy: l.now.Name, Class: l.now.Class, Resource: "large", Limit: 9})
	require.Len(t, found, 3, "where nobody looked it may have been")
}

// TestAProxyIsFollowedThroughItsClasses: it is found what it got in each, and nothing of others.
func TestAProxyIsFollowedThroughItsClasses(t *testing.T) {
	l := newProxyLife(1 << 20)
	state := func(v string) resource.State { return states(map[string]string{"a": v}) }
	l.get(state("1"))
	other := []resource.ClassState{{Class: 7, Was: state("1"), State: state("9")}}
	l.publish(Published{States: other}) // generation 3 is for others
	l.move(7, state("2"), resource.State{})
	l.get(state("3"))
	l.publish(Published{States: []resource.ClassState{{Class: 1, Was: state("1"), State: state("9")}}}) // 6 too
	found, _ := l.store.Select(Query{Proxy: l.now.Name, Class: l.now.Class, Limit: 9})
	var numbers []uint64
	for _, g := range found {
		numbers = append(numbers, g.Generation)
		require.Len(t, g.Groups, 1)
	}
	require.Equal(t, []uint64{5, 4, 2}, numbers)
	forms, since, err := l.store.Forms(l.now, resource.Cluster, "a")
	require.NoError(t, err)
	require.Equal(t, begin.Add(time.Second), since)
	numbers = nil
	for _, f := range forms {
		numbers = append(numbers, f.By.Generation)
	}
	require.Equal(t, []uint64{5, 4, 2, 0}, numbers)
	require.Nil(t, forms[3].Resource)
}

// TestAGapIsSaid: across a generation that was dropped nothing is told of what was before it.
func TestAGapIsSaid(t *testing.T) {
	l := newProxyLife(1 << 20)
	l.get(states(map[string]string{"a": "1"}))
	before := l.at
	l.recorder.gap = true // as if one were dropped here
	l.get(states(map[string]string{"a": "3"}))
	after := l.at
	l.get(states(map[string]string{"a": "4"}))
	_, _, err := l.store.At(l.now, after)
	require.NoError(t, err)
	_, _, err = l.store.At(l.now, before)
	require.ErrorContains(t, err, isGap)
	_, _, err = l.store.changedSince(before, source.Key{})
	require.ErrorContains(t, err, isGap)
	_, _, err = l.store.changedSince(after, source.Key{})
	require.NoError(t, err)
	found, since := l.store.Select(Query{Proxy: l.now.Name, Class: l.now.Class, Limit: 9})
	require.Len(t, found, 2)
	require.Equal(t, after, since)
	forms, since, err := l.store.Forms(l.now, resource.Cluster, "a")
	require.NoError(t, err)
	require.Len(t, forms, 3)
	require.Equal(t, after, since)

	l.store.dropped.Add(1) // and one now
	_, _, err = l.store.At(l.now, after)
	require.ErrorIs(t, err, ErrMissing)
	_, _, err = l.store.changedSince(after, source.Key{})
	require.ErrorIs(t, err, ErrMissing)
}

// TestAClassThatIsMadeAnewHasNoPast: of before its first proxy connected nothing is told, in place
// of what others had, unless it is known which class it is made in place of.
func TestAClassThatIsMadeAnewHasNoPast(t *testing.T) {
	l := newProxyLife(1 << 20)
	state := func(v string) resource.State { return states(map[string]string{"a": v}) }
	l.get(state("1"))
	before := l.at
	l.get(state("2"))
	made := l.at
	old := l.now
	l.last++
	l.now.Class = l.last
	l.get(state("3"))
	for range 1000 { // so that most of it is compressed
		l.publish(Published{})
	}
	was, _, err := l.store.At(l.now, made)
	require.NoError(t, err)
	requireSame(t, state("2"), was, "as it was made")
	_, _, err = l.store.At(l.now, before)
	require.ErrorContains(t, err, newlyMade)
	found, since := l.store.Select(Query{Proxy: l.now.Name, Class: l.now.Class, Limit: 9})
	require.Len(t, found, 1)
	require.Equal(t, made, since)
	forms, since, err := l.store.Forms(l.now, resource.Cluster, "a")
	require.NoError(t, err)
	require.Len(t, forms, 2)
	require.Equal(t, made, since)

	l.store.addReturn(Return{
		At: made.Add(time.Millisecond), From: old.Class, To: l.now.Class, Was: state("1"), State: state("2"),
	})
	was, _, err = l.store.At(l.now, before)
	require.NoError(t, err)
	requireSame(t, state("1"), was, "before it came back")
	forms, _, err = l.store.Forms(l.now, resource.Cluster, "a")
	require.NoError(t, err)
	require.Zero(t, forms[1].By.Generation, "it came back")
}

// TestReturnsHaveABudget: the oldest are forgotten.
func TestReturnsHaveABudget(t *testing.T) {
	s := NewStore(1 << 20)
	for n := range maxReturns {
		was := states(map[string]string{"a": fmt.Sprint(n)})
		s.addReturn(Return{At: begin, From: 1, To: resource.ClassID(n + 2), Was: was, State: states(nil)})
		require.LessOrEqual(t, s.returns.size, s.budget/returnsShare)
	}
	require.Nil(t, s.returnOf(2))
	require.NotNil(t, s.returnOf(maxReturns+1))
	require.Len(t, s.returns.of, len(s.returns.order))
}
