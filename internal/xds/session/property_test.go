package session_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/view"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// TestClientEndsWithTheSet lets updates, class changes, reconnects, refusals and the passing of time happen in any order, with
// messages in flight; then it lets all come to rest. The client then has what its class has, but for what it refuses; its
// session keeps nothing of its own; and no route ever named a cluster that was not there.
func TestClientEndsWithTheSet(t *testing.T) {
	for name, p := range map[string]session.Protocol{"delta": session.Delta, "sotw": session.StateOfTheWorld} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := newMesh(t, p)
				for range rapid.IntRange(1, 60).Draw(t, "steps") {
					m.step()
				}
				m.rest()
				m.verify()
			})
		})
	}
}

// mesh is the world on both sides of a session.
type mesh struct {
	t          *rapid.T
	protocol   session.Protocol
	resources  *resources
	differ     *view.Differ
	generation uint64
	state      *view.State
	own        view.Own
	hostile    bool // there may be errors in resources
	patient    bool // time passes only when no message is under way
	client     *envoy
}

func newMesh(t *rapid.T, p session.Protocol) *mesh {
	m := &mesh{
		t: t, protocol: p, resources: newResources(), differ: view.NewDiffer(8),
		hostile: rapid.Bool().Draw(t, "hostile"), patient: rapid.Bool().Draw(t, "patient"),
		client: newEnvoy(t, p),
	}
	m.change()
	m.reconnect()
	return m
}

// step lets one thing happen.
func (m *mesh) step() {
	e := m.client
	switch rapid.IntRange(0, 15).Draw(m.t, "what") {
	case 0, 1, 2:
		m.change()
		m.offer()
	case 3:
		m.reconnect()
	case 4:
		if !m.patient {
			e.lenient = true
			m.pass(time.Duration(rapid.IntRange(0, 12).Draw(m.t, "seconds")) * time.Second)
		}
	case 5:
		e.wake()
	case 6, 7, 8, 9, 10:
		m.deliver()
	default:
		if len(e.down) > 0 {
			e.read()
		}
	}
}

// change makes a new state.
func (m *mesh) change() {
	m.generation++
	m.state = view.NewState(m.generation)
	var clusters, endpoints, listeners, routes []string
	for _, name := range m.some("e1", "e2", "e3", "e4", "d1") {
		clusters = append(clusters, m.note(name))
		if name[0] == 'e' {
			endpoints = append(endpoints, m.note(name))
		}
	}
	if rapid.Bool().Draw(m.t, "own") {
		clusters = append(clusters, "d2:1!")
		m.own.Pod = rapid.SampledFrom([]string{"127.0.0.1", "127.0.0.2"}).Draw(m.t, "pod")
	}
	used := map[string]bool{}
	for _, name := range m.some("l1", "l2", "l3") {
		route := rapid.SampledFrom([]string{"r1", "r2", "r3"}).Draw(m.t, "route")
		listeners = append(listeners, m.note(name)+">"+route)
		if !used[route] {
			used[route] = true
			routes = append(routes, m.note(route)+">"+strings.Join(m.some(namesIn(clusters)...), "+"))
		}
	}
	m.state.Sets[view.Cluster] = m.resources.set(clusters)
	m.state.Sets[view.Endpoint] = m.resources.set(endpoints)
	m.state.Sets[view.Listener] = m.resources.set(listeners)
	m.state.Sets[view.Route] = m.resources.set(routes)
}

func (m *mesh) some(names ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(string) bool { return rapid.IntRange(0, 2).Draw(m.t, "without") == 0 })
}

func (m *mesh) note(name string) string {
	version := rapid.IntRange(1, 3).Draw(m.t, "version")
	if m.hostile && rapid.IntRange(0, 7).Draw(m.t, "bad") == 0 {
		return fmt.Sprintf("%s:X%d", name, version)
	}
	return fmt.Sprintf("%s:%d", name, version)
}

func namesIn(notes []string) []string {
	var out []string
	for _, n := range notes {
		name, _, _ := strings.Cut(n, ":")
		out = append(out, name)
	}
	return out
}

func (m *mesh) offer() {
	e := m.client
	m.t.Logf("update %d %s cds=%v eds=%v lds=%v rds=%v", m.generation, m.own.Pod, all(m.state, view.Cluster),
		all(m.state, view.Endpoint), all(m.state, view.Listener), all(m.state, view.Route))
	e.send(e.session.Update(m.state, m.own, e.now))
}

func (m *mesh) reconnect() {
	e := m.client
	o := session.Options{Protocol: m.protocol, Differ: m.differ, Hold: 10 * time.Second}
	if e.session != nil {
		// A refusal that the server never hears of cannot be helped: the client then claims what it does not have.
		e.up = append(e.up, e.acks...)
		for len(e.up) > 0 {
			m.deliver()
		}
		o.Distrust = e.session.Distrusted()
		if m.protocol == session.StateOfTheWorld {
			e.lenient = true // such a client does not say what it has, so it loses it with the first response
		}
	}
	e.connect(session.New(o))
	if rapid.Bool().Draw(m.t, "early") {
		m.deliver()
	}
	m.offer()
}

// deliver brings the next request to the session.
func (m *mesh) deliver() {
	e := m.client
	if len(e.up) == 0 {
		return
	}
	req := e.up[0]
	e.up = e.up[1:]
	m.t.Logf("> %s", say(req))
	e.send(e.session.Request(req, e.now))
}

func (m *mesh) pass(d time.Duration) {
	e := m.client
	m.t.Logf("%s pass", d)
	e.now = e.now.Add(d)
	e.send(e.session.Tick(e.now))
}

// rest delivers everything, and lets time pass when nothing is under way.
func (m *mesh) rest() {
	e := m.client
	for range 10000 {
		switch at, waits := e.session.NextTick(); {
		case len(e.up) > 0:
			m.deliver()
		case len(e.down) > 0:
			e.read()
		case len(e.sleeping) > 0:
			e.wake()
		case len(e.types[view.Endpoint].pending)+len(e.types[view.Route].pending) > 0:
			e.flush()
		case waits:
			if !at.After(e.now) {
				m.t.Fatalf("the next tick lies in the past: %v", at)
			}
			m.pass(at.Sub(e.now))
		default:
			return
		}
	}
	m.t.Fatalf("it does not come to rest")
}

func (m *mesh) verify() {
	e, s := m.client, m.client.session
	refused := false
	for typ, set := range m.state.Sets {
		c := e.types[typ]
		withheld := s.Status()[typ].Withheld // TestWithheldIsWhatWorks says what may be
		for r := range set.All() {
			if slices.Contains(withheld, r.Name()) {
				refused = true
				continue
			}
			if strings.Contains(noteOf(r), "X") {
				refused = true
				continue
			}
			watched := view.Type(typ).Wildcard() || c.names[r.Name()]
			if watched && c.held[r.Name()].version != m.own.Version(r).String() {
				m.t.Fatalf("%s: the client has %q, not %q\n%s", view.Type(typ), c.held[r.Name()].note, noteOf(r), e)
			}
		}
		for name, it := range c.held {
			if set.Get(name) == nil && !strings.HasSuffix(it.note, ":empty") {
				m.t.Fatalf("%s: the client still has %q\n%s", view.Type(typ), it.note, e)
			}
		}
	}
	if s.AckedGeneration() != m.generation {
		m.t.Fatalf("acked %d of %d", s.AckedGeneration(), m.generation)
	}
	if len(e.warming) > 0 {
		m.t.Fatalf("clusters still warm: %v", e.warming)
	}
	if refused {
		return
	}
	if !s.InSync() || s.Exceptions() != 0 {
		m.t.Fatalf("in sync %t, exceptions %d\n%s", s.InSync(), s.Exceptions(), e)
	}
}

func all(s *view.State, t view.Type) []string {
	var out []string
	for r := range s.Sets[t].All() {
		out = append(out, noteOf(r))
	}
	slices.Sort(out)
	return out
}

func say(r session.Request) string {
	t, _ := view.TypeByURL(r.TypeURL)
	s := fmt.Sprintf("%s %s +%v -%v names=%v init=%d", t, r.Nonce, r.Subscribe, r.Unsubscribe, r.Names, len(r.InitialVersions))
	if r.Nack != nil {
		s += " NACK " + r.Nack.Message
	}
	return s
}

func namesOf(list []*view.Resource) []string {
	var out []string
	for _, r := range list {
		out = append(out, r.Name())
	}
	return out
}

func (e *envoy) String() string {
	var b strings.Builder
	for typ, c := range e.types {
		fmt.Fprintf(&b, "%s:", view.Type(typ))
		for _, name := range slices.Sorted(maps.Keys(c.held)) {
			fmt.Fprintf(&b, " %s", c.held[name].note)
		}
		b.WriteString("\n")
	}
	return b.String()
}
