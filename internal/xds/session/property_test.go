package session_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/testkit/envoymodel"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// TestClientEndsWithTheSet lets updates, class changes, reconnects, restarts of the server,
// refusals and the passing of time happen in any order, with messages in flight; then it lets all
// come to rest. The client then has what its class has, but for what it refuses; its session keeps
// nothing of its own; no cluster that was in use was ever missing or without endpoints.
//
// The client is a model of Envoy that is held to the real one (internal/testkit/envoymodel), and
// reads the bytes that go on the wire.
func TestClientEndsWithTheSet(t *testing.T) {
	for name, k := range map[string]kind{
		"delta": {}, "sotw": {protocol: session.StateOfTheWorld}, "vhds": {virtualHosts: true},
		"leds": {collections: 2}, "churning": {churning: true},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := newMesh(t, k)
				for range rapid.IntRange(1, 60).Draw(t, "steps") {
					m.step()
				}
				m.rest()
				m.verify()
			})
		})
	}
}

// kind is what a session is told of its client.
type kind struct {
	protocol     session.Protocol
	virtualHosts bool
	collections  int
	churning     bool // no assignment goes in LEDS form but those that change often
}

// mesh is the world on both sides of a session.
type mesh struct {
	t *rapid.T
	kind
	store      *resource.Store
	names      *model.Interner[string]
	known      map[string]*resource.Resource // by note
	notes      map[*resource.Resource]string
	differ     *resource.Differ
	newer      bool // the server speaks VHDS
	vhds       bool // the session's tables go in pieces
	generation uint64
	state      resource.State
	own        resource.Overlay
	hostile    bool // there may be errors in resources
	patient    bool // time passes only when no message is under way
	steady     bool // no table is ever without virtual hosts
	catalog    catalog
	client     *client
}

func newMesh(t *rapid.T, k kind) *mesh {
	m := &mesh{
		t: t, kind: k, store: resource.NewStore(), names: model.NewInterner[string](),
		known: map[string]*resource.Resource{}, notes: map[*resource.Resource]string{},
		own:     resource.Overlay{Pod: "127.0.0.1"},
		hostile: rapid.Bool().Draw(t, "hostile"), patient: rapid.Bool().Draw(t, "patient"),
		steady: rapid.Bool().Draw(t, "steady"), catalog: rapid.SampledFrom(catalogs).Draw(t, "catalog"),
	}
	if k.collections > 0 { // with fewer than half of that, an assignment leaves the form
		m.collections = rapid.SampledFrom([]int{2, 4}).Draw(t, "collections")
	}
	if k.churning { // two endpoints do then, and one of those that do
		m.collections = 24
	}
	m.client = newClient(t, k.protocol, m.hostile)
	m.differ = m.newDiffer()
	m.client.steady = m.steady
	m.change()
	m.reconnect(true)
	return m
}

// newDiffer returns a Differ that has the client's clock.
func (m *mesh) newDiffer() *resource.Differ {
	return resource.NewDifferAt(8, func() time.Time { return m.client.now })
}

// step lets one thing happen.
func (m *mesh) step() {
	c := m.client
	switch rapid.IntRange(0, 16).Draw(m.t, "what") {
	case 0, 1, 2:
		m.change()
		m.offer()
	case 3:
		m.reconnect(false)
	case 4:
		if rapid.Bool().Draw(m.t, "graceful") {
			m.end()
		}
		if rapid.Bool().Draw(m.t, "newer") {
			m.change() // while the server was down
		}
		m.reconnect(true)
	case 5:
		if m.patient {
			m.rest()
		} else {
			c.lenient = true
			c.pass(time.Duration(rapid.IntRange(0, 12).Draw(m.t, "seconds")) * time.Second)
		}
	case 6:
		c.says(c.envoy.Resolve())
	case 7, 8, 9, 10, 11:
		if len(c.up) > 0 {
			c.deliver()
		}
	default:
		if len(c.down) > 0 {
			c.read()
		}
	}
}

// end has the server seal what the client has before the stream is lost. The client reads some of
// what is under way.
func (m *mesh) end() {
	c := m.client
	c.send(c.session.Seal(c.now))
	for range rapid.IntRange(0, len(c.down)).Draw(m.t, "read") {
		c.read()
	}
}

// wrong reports whether a client refuses the resource, or a part of it.
func (m *mesh) wrong(r *resource.Resource) bool {
	if r.VirtualHosts() != nil {
		for host := range r.VirtualHosts().All() {
			if m.wrong(host) {
				return true
			}
		}
	}
	return strings.ContainsAny(m.notes[r], "XPU")
}

// wanted is what a client should have of a type.
func (m *mesh) wanted(t resource.Type) *resource.Set {
	switch {
	case m.vhds || t != resource.Route && t != resource.VirtualHost:
		return m.state.Set(t)
	case t == resource.Route:
		return m.state.Tables()
	}
	return resource.Empty()
}

func (m *mesh) offer() {
	m.t.Logf("update %d %s cds=%v eds=%v lds=%v rds=%v vhds=%v ecds=%v", m.generation, m.own.Pod,
		m.all(resource.Cluster), m.all(resource.Endpoint),
		m.all(resource.Listener), m.all(resource.Route), m.all(resource.VirtualHost), m.all(resource.Filter))
	m.differ.Advance()
	m.client.send(m.client.session.Update(m.state, m.own, m.client.now))
}

func (m *mesh) all(t resource.Type) []string {
	var out []string
	for r := range m.state.Set(t).All() {
		out = append(out, m.notes[r])
	}
	slices.Sort(out)
	return out
}

// reconnect ends the stream, with what is under way, and opens one to a session of the same server,
// or to one that remembers nothing.
func (m *mesh) reconnect(restarted bool) {
	c := m.client
	o := session.Options{Protocol: m.protocol, Differ: m.differ, Hold: 10 * time.Second, Drain: drain}
	if (m.virtualHosts || m.collections > 0) && restarted {
		m.newer = rapid.IntRange(0, 4).Draw(m.t, "old server") > 0
	}
	o.VirtualHosts = m.newer && m.virtualHosts
	m.vhds = o.VirtualHosts && !c.hasWholeTables()
	if m.newer {
		o.Collections = m.collections
	}
	if restarted {
		m.t.Logf("the server starts")
		m.differ = m.newDiffer()
		o.Differ = m.differ
		c.forgets()
	} else {
		o.Distrust = c.session.Distrusted()
	}
	if c.session != nil && m.protocol == session.StateOfTheWorld {
		c.lenient = true // such a client does not say what it has, so it loses it with the first response
	}
	c.connect(session.New(o))
	if rapid.Bool().Draw(m.t, "early") && len(c.up) > 0 {
		c.deliver()
	}
	m.offer()
}

// rest delivers everything, and lets time pass when nothing is under way.
func (m *mesh) rest() {
	c := m.client
	for range 10000 {
		switch {
		case len(c.up) > 0:
			c.deliver()
		case len(c.down) > 0:
			c.read()
		case m.stirs():
		default:
			at, waits := m.next()
			if !waits {
				return
			}
			if !at.After(c.now) {
				m.t.Fatalf("the next tick lies in the past: %v", at)
			}
			c.pass(at.Sub(c.now))
		}
	}
	m.t.Fatalf("it does not come to rest")
}

// stirs ends what the client put off, and reports whether there was any.
func (m *mesh) stirs() bool {
	c := m.client
	c.says(c.envoy.Resolve())
	c.says(c.envoy.Flush())
	return len(c.up) > 0
}

// next is when something happens by itself.
func (m *mesh) next() (time.Time, bool) {
	at, waits := m.client.session.NextTick()
	if t, ok := m.client.envoy.NextTimer(); ok && (!waits || t.Before(at)) {
		at, waits = t, true
	}
	return at, waits
}

func (m *mesh) verify() {
	c, s := m.client, m.client.session
	refused := false
	for t := range resource.NumTypes {
		set := m.wanted(t)
		kind, ok := envoymodel.KindByURL(t.URL())
		if !ok {
			continue
		}
		has := c.envoy.Bodies(kind)
		withheld := s.Status()[t].Withheld // TestWithholdingKeepsWhatWorked says what may be
		for r := range set.All() {
			if slices.Contains(withheld, r.Name()) {
				refused = true
				continue
			}
			if m.wrong(r) {
				refused = true
				continue
			}
			if t == resource.Listener && m.namesUnmended(r) {
				refused = true
				continue
			}
			if t == resource.VirtualHost && m.tied(r, has) {
				refused = true
				continue
			}
			if c.envoy.Watched(kind, r.Name()) && !c.unknowable[t][r.Name()] &&
				flat(t, has[r.Name()]) != flat(t, string(m.own.Body(t, r))) {
				m.t.Fatalf("%s: the client does not have %q\n%s", t, m.notes[r], c)
			}
		}
		for name, body := range has {
			stale := c.unknowable[t][name] || t == resource.Endpoint && c.unknowable[resource.Cluster][name]
			if body != "" && set.Get(name) == nil && !stale && c.versions[t][flat(t, body)] != m.emptyVersion(t, name) {
				m.t.Fatalf("%s: the client still has %s\n%s", t, name, c)
			}
		}
	}
	if s.AckedGeneration() != m.generation || s.AnsweredGeneration() != m.generation {
		m.t.Fatalf("acked %d, answered %d of %d", s.AckedGeneration(), s.AnsweredGeneration(), m.generation)
	}
	summary := c.envoy.Summary()
	for name := range summary.WarmingListeners {
		// One whose newer version is refused waits for routes and filters that are gone.
		if r := m.wanted(resource.Listener).Get(name); r != nil && m.wrong(r) {
			delete(summary.WarmingListeners, name)
		}
	}
	if len(summary.WarmingClusters)+len(summary.WarmingListeners) > 0 {
		m.t.Fatalf("something still warms: %s", c)
	}
	for _, names := range c.unknowable {
		refused = refused || len(names) > 0
	}
	if refused {
		return
	}
	if !s.InSync() || s.Exceptions() != 0 {
		m.t.Fatalf("in sync %t, exceptions %d\n%s", s.InSync(), s.Exceptions(), c)
	}
}

// namesUnmended reports whether a listener names a filter that the client refused after it had an
// older one from an earlier stream, so that it refuses the listener too.
func (m *mesh) namesUnmended(listener *resource.Resource) bool {
	_, named, _ := strings.Cut(m.notes[listener], "+")
	_, ever := m.client.refused[resource.Filter][named]
	return ever && m.client.unmended[named]
}

// tied reports whether a virtual host hands a domain on, by way of others maybe, to or from one
// that the client refuses: those are taken together or not at all.
func (m *mesh) tied(host *resource.Resource, has map[string]string) bool {
	table, _ := resource.TableOf(host.Name())
	domains := map[string][]string{}
	for other := range m.state.Set(resource.VirtualHost).Under(table) {
		var old routev3.VirtualHost
		_ = proto.Unmarshal([]byte(has[other.Name()]), &old) // the model read it, or there is none
		domains[other.Name()] = append(old.GetDomains(), other.Domains()...)
	}
	reached := slices.Clone(domains[host.Name()])
	for range domains { // no way is longer
		for name, its := range domains {
			if !slices.ContainsFunc(its, func(d string) bool { return slices.Contains(reached, d) }) {
				continue
			}
			if m.wrong(m.state.Set(resource.VirtualHost).Get(name)) {
				return true
			}
			reached = append(reached, its...)
		}
	}
	return false
}

// emptyVersion is that of an assignment or a table that has only its name.
func (m *mesh) emptyVersion(t resource.Type, name string) string {
	bare := append([]byte{1<<3 | 2, byte(len(name))}, name...)
	switch {
	case t == resource.Route && m.vhds:
		return resource.NewTableHead(name, bare).Version().String()
	case t == resource.Route:
		return resource.NewWholeTable(name, bare).Version().String()
	case t == resource.Endpoint:
		return resource.NewAssignment(name, bare, nil).Version().String()
	}
	return resource.New(name, bare).Version().String()
}
