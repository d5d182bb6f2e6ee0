package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/testkit/envoymodel"
	"github.com/lateen-mesh/lateen/internal/view"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// TestClientEndsWithTheSet lets updates, class changes, reconnects, restarts of the server, refusals and the passing of time
// happen in any order, with messages in flight; then it lets all come to rest. The client then has what its class has, but for
// what it refuses; its session keeps nothing of its own; no cluster that was in use was ever missing or without endpoints.
//
// The client is a model of Envoy that is held to the real one (internal/testkit/envoymodel), and reads the bytes that go on the
// wire.
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
	store      *view.Store
	names      *model.Interner[string]
	known      map[string]*view.Resource // by note
	notes      map[*view.Resource]string
	differ     *view.Differ
	generation uint64
	state      *view.State
	own        view.Own
	hostile    bool // there may be errors in resources
	patient    bool // time passes only when no message is under way
	client     *client
}

func newMesh(t *rapid.T, p session.Protocol) *mesh {
	m := &mesh{
		t: t, protocol: p, store: view.NewStore(), names: model.NewInterner[string](), known: map[string]*view.Resource{}, notes: map[*view.Resource]string{},
		differ: view.NewDiffer(8), own: view.Own{Pod: "127.0.0.1"},
		hostile: rapid.Bool().Draw(t, "hostile"), patient: rapid.Bool().Draw(t, "patient"),
	}
	m.client = newClient(t, p, m.hostile)
	m.change()
	m.reconnect(true)
	return m
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

// change makes a new state: of the same class, or of another, which makes no difference to a session.
func (m *mesh) change() {
	m.generation++
	m.state = view.NewState(m.generation)
	var clusters, endpoints, listeners, routes []*view.Resource
	var names []string
	for _, name := range m.some("e1", "e2", "e3", "e4", "s1", "d1") {
		names = append(names, name)
		clusters = append(clusters, m.resource(envoymodel.Clusters, m.note(name)))
		if name[0] == 'e' {
			n := rapid.IntRange(1, 3).Draw(m.t, "endpoints")
			endpoints = append(endpoints, m.resource(envoymodel.Endpoints, fmt.Sprintf("%s=%d,%d", m.note(name), n, 10+n)))
		}
	}
	if rapid.Bool().Draw(m.t, "own") {
		names = append(names, "o1")
		clusters = append(clusters, m.ownCluster("o1"))
		m.own.Pod = rapid.SampledFrom([]string{"127.0.0.1", "127.0.0.2"}).Draw(m.t, "pod")
	}
	used := map[string]bool{}
	for _, name := range m.some("l1", "l2", "l3") {
		if len(names) > 0 && rapid.IntRange(0, 4).Draw(m.t, "TCP") == 0 {
			to := rapid.SampledFrom(names).Draw(m.t, "to")
			listeners = append(listeners, m.resource(envoymodel.Listeners, fmt.Sprintf("%s:%d>>%s", name, m.content(), to)))
			continue
		}
		route := rapid.SampledFrom([]string{"r1", "r2", "r3"}).Draw(m.t, "route")
		listeners = append(listeners, m.resource(envoymodel.Listeners, m.note(name)+">"+route))
		if !used[route] {
			used[route] = true
			routes = append(routes, m.resource(envoymodel.Routes, m.note(route)+">"+strings.Join(m.some(names...), "+")))
		}
	}
	m.state.Sets[view.Cluster] = m.store.Build(clusters...)
	m.state.Sets[view.Endpoint] = m.store.Build(endpoints...)
	m.state.Sets[view.Listener] = m.store.Build(listeners...)
	m.state.Sets[view.Route] = m.store.Build(routes...)
}

func (m *mesh) some(names ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(string) bool { return rapid.IntRange(0, 2).Draw(m.t, "without") == 0 })
}

func (m *mesh) content() int { return rapid.IntRange(1, 3).Draw(m.t, "version") }

// note is a resource's name and content in the notation of envoymodel, with what is wrong with it.
func (m *mesh) note(name string) string {
	flag := ""
	if m.hostile && rapid.IntRange(0, 7).Draw(m.t, "bad") == 0 {
		flag = rapid.SampledFrom([]string{"X", "P", "U"}).Draw(m.t, "how")
	} else if name[0] == 'l' && rapid.IntRange(0, 3).Draw(m.t, "outside") == 0 {
		flag = "!"
	}
	return fmt.Sprintf("%s:%d%s", name, m.content(), flag)
}

func (m *mesh) resource(k envoymodel.Kind, note string) *view.Resource {
	key := k.String() + " " + note
	if r := m.known[key]; r != nil {
		return r
	}
	described, err := envoymodel.ParseResource(k, note)
	if err != nil {
		m.t.Fatal(err)
	}
	r := view.NewReferringResource(described.Name, described.Body(), m.refs(k, described.Targets))
	if k == envoymodel.Routes && !strings.ContainsAny(note, "XPU") {
		r = m.table(described)
	}
	m.known[key], m.notes[r] = r, note
	return r
}

func (m *mesh) refs(k envoymodel.Kind, targets []string) view.Refs {
	var clusters, routes []string
	for _, to := range targets {
		if k == envoymodel.Listeners && to[0] == 'r' {
			routes = append(routes, to)
		} else {
			clusters = append(clusters, to)
		}
	}
	return view.Refs{Clusters: m.names.List(clusters), Routes: m.names.List(routes)}
}

// table has a virtual host for each cluster.
func (m *mesh) table(described envoymodel.Resource) *view.Resource {
	head := &routev3.RouteConfiguration{
		Name: described.Name, ValidateClusters: wrapperspb.Bool(false), InternalOnlyHeaders: []string{"x-" + described.Version},
	}
	var members []*view.Resource
	for _, to := range described.Targets {
		host := &routev3.VirtualHost{Domains: []string{to}, Routes: []*routev3.Route{{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/" + described.Version}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{
				ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: to},
			}},
		}}}
		members = append(members, view.NewReferringResource(to, m.encode(host), m.refs(envoymodel.Routes, []string{to})))
	}
	return view.NewRouteTable(described.Name, m.encode(head), m.store.Build(members...))
}

func (m *mesh) encode(message proto.Message) []byte {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		m.t.Fatal(err)
	}
	return body
}

// ownCluster has the proxy's own address in it.
func (m *mesh) ownCluster(name string) *view.Resource {
	if m.known[name] == nil {
		body := m.encode(&clusterv3.Cluster{
			Name: name, ConnectTimeout: durationpb.New(time.Second),
			UpstreamBindConfig: &corev3.BindConfig{SourceAddress: &corev3.SocketAddress{
				Address: model.OwnPod, PortSpecifier: &corev3.SocketAddress_PortValue{},
			}},
		})
		m.known[name] = view.NewOwnResource(name, body)
		m.notes[m.known[name]] = name + ":own"
	}
	return m.known[name]
}

// wrong tells that a client refuses the resource.
func (m *mesh) wrong(r *view.Resource) bool { return strings.ContainsAny(m.notes[r], "XPU") }

func (m *mesh) offer() {
	m.t.Logf("update %d %s cds=%v eds=%v lds=%v rds=%v", m.generation, m.own.Pod, m.all(view.Cluster), m.all(view.Endpoint),
		m.all(view.Listener), m.all(view.Route))
	m.client.send(m.client.session.Update(m.state, m.own, m.client.now))
}

func (m *mesh) all(t view.Type) []string {
	var out []string
	for r := range m.state.Sets[t].All() {
		out = append(out, m.notes[r])
	}
	slices.Sort(out)
	return out
}

// reconnect ends the stream, with what is under way, and opens one to a session of the same server, or to one that remembers
// nothing.
func (m *mesh) reconnect(restarted bool) {
	c := m.client
	o := session.Options{Protocol: m.protocol, Differ: m.differ, Hold: 10 * time.Second, Drain: drain}
	if restarted {
		m.t.Logf("the server starts")
		m.differ = view.NewDiffer(8)
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

// stirs ends what the client put off, and tells whether there was any.
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
	for typ, set := range m.state.Sets {
		t := view.Type(typ)
		kind, ok := envoymodel.KindByURL(t.URL())
		if !ok {
			continue
		}
		has := c.envoy.Bodies(kind)
		withheld := s.Status()[typ].Withheld // TestWithheldIsWhatWorks says what may be
		for r := range set.All() {
			if slices.Contains(withheld, r.Name()) {
				refused = true
				continue
			}
			if m.wrong(r) {
				refused = true
				continue
			}
			if c.envoy.Watched(kind, r.Name()) && has[r.Name()] != string(m.own.Body(t, r)) && !c.unknowable[t][r.Name()] {
				m.t.Fatalf("%s: the client does not have %q\n%s", t, m.notes[r], c)
			}
		}
		for name, body := range has {
			stale := c.unknowable[t][name] || t == view.Endpoint && c.unknowable[view.Cluster][name]
			if body != "" && set.Get(name) == nil && !stale && c.versions[t][body] != emptyVersion(name) {
				m.t.Fatalf("%s: the client still has %s\n%s", t, name, c)
			}
		}
	}
	if s.AckedGeneration() != m.generation {
		m.t.Fatalf("acked %d of %d", s.AckedGeneration(), m.generation)
	}
	if summary := c.envoy.Summary(); len(summary.WarmingClusters)+len(summary.WarmingListeners) > 0 {
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

// emptyVersion is that of an assignment or a table that has only its name.
func emptyVersion(name string) string {
	return view.NewResource(name, append([]byte{1<<3 | 2, byte(len(name))}, name...)).Version().String()
}
