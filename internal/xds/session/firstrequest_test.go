package session_test

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// wire has the lists of a request as they come from the wire: a name may stand twice, and what is
// yielded does not last.
type wire struct {
	names    []string
	versions [][2]string
}

func (w *wire) Lengths() (subscribed, reported int) { return len(w.names), len(w.versions) }

func (w *wire) Subscribed() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, name := range w.names {
			passing := []byte(name)
			if !yield(passing) {
				return
			}
			clear(passing)
		}
	}
}

func (w *wire) Reported() iter.Seq2[[]byte, []byte] {
	return func(yield func(_, _ []byte) bool) {
		for _, e := range w.versions {
			name, version := []byte(e[0]), []byte(e[1])
			if !yield(name, version) {
				return
			}
			clear(name)
			clear(version)
		}
	}
}

// TestInitialVersionsAreComparedWithTheSetOrByName: a client's first request of a type is
// compared with what its class has, at once, if that is mostly the same; else it is taken name by
// name, which one that gives up a name which it never had always is. The client is sent the same
// either way, then and later.
func TestInitialVersionsAreComparedWithTheSetOrByName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newSessionPair(t)
		for _, typ := range []resource.Type{
			resource.Cluster, resource.Endpoint, resource.Listener, resource.Route, resource.VirtualHost,
		} {
			if rapid.IntRange(0, 9).Draw(t, "left out") > 0 {
				d.open(typ)
			}
		}
		for range 2 {
			d.update()
		}
		for i, s := range d.sessions {
			require.True(t, s.InSync(), "session %d", i)
		}
		at, byName := d.sessions[0], d.sessions[1]
		require.LessOrEqual(t, at.Exceptions(), byName.Exceptions())
		for typ, st := range at.Status() {
			require.Equal(t, byName.Status()[typ].Resources, st.Resources, "%s that it holds", resource.Type(typ))
		}
	})
}

// sessionPair are two sessions that are told the same.
type sessionPair struct {
	t          *rapid.T
	store      *resource.Store
	differ     *resource.Differ
	sessions   [2]*session.Session
	state      resource.State
	generation uint64
	own        resource.Overlay
	vhds       bool
	now        time.Time
}

func newSessionPair(t *rapid.T) *sessionPair {
	d := &sessionPair{
		t: t, store: resource.NewStore(), differ: resource.NewDiffer(64), vhds: rapid.Bool().Draw(t, "vhds"),
		own: resource.Overlay{Pod: "127.0.0.1"}, now: start,
	}
	var o session.Options
	o.Differ, o.VirtualHosts = d.differ, d.vhds
	if rapid.Bool().Draw(t, "distrust") {
		o.Distrust[resource.Cluster] = map[string]struct{}{"a": {}}
		o.Distrust[resource.Endpoint] = map[string]struct{}{"a": {}, "none": {}}
	}
	for i := range d.sessions {
		d.sessions[i] = session.New(o)
	}
	d.update()
	return d
}

var manyNames = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

// update makes a new state.
func (d *sessionPair) update() {
	d.generation++
	d.state = resource.NewState(d.generation)
	for _, typ := range []resource.Type{
		resource.Cluster, resource.Endpoint, resource.Listener, resource.Route, resource.VirtualHost,
	} {
		var list []*resource.Resource
		for _, name := range manyNames {
			orphan := typ == resource.VirtualHost &&
				d.state.Set(resource.Route).Get(tableOf(name)) == nil // no table has it
			if !orphan && rapid.IntRange(0, 4).Draw(d.t, "without") > 0 {
				list = append(list, d.resource(typ, name, rapid.IntRange(1, 2).Draw(d.t, "content")))
			}
		}
		d.state = d.state.With(typ, d.store.Build(list...))
	}
	d.exchange(func(s *session.Session) []session.Response { return s.Update(d.state, d.own, d.now) })
}

// tableOf is the table of a virtual host.
func tableOf(name string) string { return "abc"[name[0]%3:][:1] }

func (d *sessionPair) resource(typ resource.Type, name string, content int) *resource.Resource {
	body := fmt.Appendf(nil, "%s %d", name, content)
	switch {
	case typ == resource.VirtualHost:
		return resource.NewVirtualHost(tableOf(name), name, body, resource.Refs{})
	case typ == resource.Route:
		return resource.NewTableHead(name, body)
	case (typ == resource.Cluster || typ == resource.Listener) && name < "c":
		return resource.NewWith(name, body, resource.Traits{Placeholders: true})
	}
	return resource.New(name, body)
}

// open sends both sessions the first request of a type.
func (d *sessionPair) open(typ resource.Type) {
	var w wire
	if !typ.Wildcard() || rapid.IntRange(0, 9).Draw(d.t, "names") == 0 {
		for _, name := range append(slices.Clone(manyNames), "none", "a", "*") {
			if rapid.IntRange(0, 9).Draw(d.t, "not asked for") > 0 && (name != "*" || rapid.Bool().Draw(d.t, "all")) {
				w.names = append(w.names, name)
			}
		}
	}
	if rapid.IntRange(0, 3).Draw(d.t, "new") > 0 {
		for r := range d.state.Set(typ).All() {
			for range rapid.SampledFrom([]int{0, 1, 1, 1, 1, 1, 1, 2}).Draw(d.t, "times") {
				w.versions = append(w.versions, [2]string{r.Name(), d.version(r)})
			}
		}
		for _, name := range []string{"gone", "a/gone"} {
			if rapid.Bool().Draw(d.t, name) {
				w.versions = append(w.versions, [2]string{
					name, rapid.SampledFrom([]string{"1", resource.New(name, nil).Version().String()}).Draw(d.t, "of"),
				})
			}
		}
		w.versions = rapid.Permutation(w.versions).Draw(d.t, "order")
	}
	d.t.Logf("%s %+v", typ, w)
	first := []session.Request{
		{TypeURL: typ.URL(), Lists: &w}, {TypeURL: typ.URL(), Subscribe: w.names, Unsubscribe: []string{"never had"}},
	}
	for _, e := range w.versions {
		if first[1].InitialVersions == nil {
			first[1].InitialVersions = map[string]string{}
		}
		first[1].InitialVersions[e[0]] = e[1]
	}
	d.exchange(func(s *session.Session) []session.Response {
		if s == d.sessions[0] {
			return s.Request(first[0], d.now)
		}
		return s.Request(first[1], d.now)
	})
}

// version is one that a client may report: mostly the right one.
func (d *sessionPair) version(r *resource.Resource) string {
	switch rapid.IntRange(0, 11).Draw(d.t, "reported") {
	case 0:
		return "another control plane's"
	case 1:
		return resource.New(r.Name(), []byte("old")).Version().String()
	}
	return d.own.Version(r).String()
}

// exchange has both sessions take something, and all that they send acknowledged, until no hold is
// left. They have to send the same.
func (d *sessionPair) exchange(take func(*session.Session) []session.Response) {
	var sent [2]map[string]string
	for i, s := range d.sessions {
		sent[i] = map[string]string{}
		now := d.now
		for queue := take(s); ; queue = s.Tick(now) {
			d.answer(s, queue, now, sent[i])
			at, waits := s.NextTick()
			if !waits {
				break
			}
			now = at
		}
	}
	d.now = d.now.Add(time.Hour)
	require.Equal(d.t, sent[1], sent[0])
}

// answer acknowledges responses, and notes what they say.
func (d *sessionPair) answer(s *session.Session, queue []session.Response, now time.Time, sent map[string]string) {
	for ; len(queue) > 0; queue = queue[1:] {
		r := queue[0]
		for _, u := range r.Upserts {
			sent[r.Type.String()+" "+u.Name()] += d.own.Version(u).String() + " "
		}
		for _, name := range r.Removed {
			sent[r.Type.String()+" "+name] += "removed "
		}
		queue = append(queue, s.Request(session.Request{TypeURL: r.Type.URL(), Nonce: r.Nonce}, now)...)
	}
}
