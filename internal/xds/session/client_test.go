package session_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/view"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// envoy is a client as Envoy is one (docs/protocol.md, 1): it warms changed clusters and withholds their ACK meanwhile, drops
// endpoints that nothing waits for, keeps an old listener until the routes of the new one are there, takes the good part of a
// response that it refuses and then remembers the versions from before, and applies nothing of one that it cannot
// read. It is strict: it fails the test at what an Envoy would answer with an outage.
//
// The names say what a resource is: e1 is a cluster with endpoints, d1 one without; the note of a listener ends in the name
// of its routes (l1:2>r1), that of routes in the clusters that they name (r1:3>e1+d1); an X in a note is an error.
type envoy struct {
	t        *rapid.T
	protocol session.Protocol
	session  *session.Session
	now      time.Time
	down     []arrival
	up       []session.Request
	nonces   map[string]bool

	types    [view.NumTypes]*envoyType
	warming  map[string]bool // clusters that wait for endpoints
	warm     map[string]bool // clusters that have been warm since they were added
	sleeping map[string]bool // clusters that do not watch their endpoints yet
	active   map[string]string
	starting map[string]string // listeners that wait for their routes
	acks     []session.Request // of clusters, withheld
	started  bool              // no cluster warmed, once

	lenient bool // time passed while messages were under way, or something was refused: holds may have ended
}

type envoyType struct {
	opened   bool
	names    map[string]bool // other than wildcards
	pending  []string        // delta: names to subscribe to (+a) or unsubscribe from (-a)
	held     map[string]item
	reported map[string]string
	nonce    string
	version  string // state of the world: of the response accepted last
}

// arrival is a response on its way, with the proxy's addresses as they were when it was sent.
type arrival struct {
	session.Response
	own view.Own
}

func (e *envoy) send(responses []session.Response) {
	for _, r := range responses {
		e.down = append(e.down, arrival{r, e.session.Own()})
	}
}

type item struct {
	note    string
	version string
}

func newEnvoy(t *rapid.T, p session.Protocol) *envoy {
	e := &envoy{
		t: t, protocol: p, now: time.Unix(1000, 0),
		warming: map[string]bool{}, warm: map[string]bool{}, sleeping: map[string]bool{},
		active: map[string]string{}, starting: map[string]string{},
	}
	for typ := range e.types {
		e.types[typ] = &envoyType{names: map[string]bool{}, held: map[string]item{}, reported: map[string]string{}}
	}
	return e
}

// connect opens a stream. What the client holds it keeps, and says so; but once it has started it does not ask for clusters
// while one warms (release).
func (e *envoy) connect(s *session.Session) {
	e.t.Logf("connect")
	e.session = s
	e.down, e.up, e.acks = nil, nil, nil
	e.nonces = map[string]bool{}
	for typ, c := range e.types {
		c.opened, c.nonce, c.pending = false, "", nil
		t := view.Type(typ)
		if t == view.Cluster && e.started && len(e.warming) > len(e.sleeping) {
			e.lenient = e.lenient || !e.reports()
			continue
		}
		if t.Wildcard() || len(c.names) > 0 {
			e.ask(t)
		}
	}
}

// reports tells whether the next stream shows that there was one before. Where it does not, as with an Envoy that has neither
// endpoints nor listeners yet, nothing tells the client from one that wants no clusters at all.
func (e *envoy) reports() bool {
	return slices.ContainsFunc(e.types[view.Endpoint:], func(c *envoyType) bool { return len(c.reported) > 0 || c.version != "" })
}

// ask sends what the client wants to say about a type, other than an ACK.
func (e *envoy) ask(t view.Type) { e.up = append(e.up, e.request(t)) }

func (e *envoy) request(t view.Type) session.Request {
	c := e.types[t]
	req := session.Request{TypeURL: t.URL()}
	if e.protocol == session.StateOfTheWorld {
		req.Names, req.Nonce, req.VersionInfo = slices.Sorted(maps.Keys(c.names)), c.nonce, c.version
	} else if c.opened {
		for _, p := range c.pending {
			if p[0] == '+' {
				req.Subscribe = append(req.Subscribe, p[1:])
			} else {
				req.Unsubscribe = append(req.Unsubscribe, p[1:])
			}
		}
	} else {
		req.Subscribe = slices.Sorted(maps.Keys(c.names))
		req.InitialVersions = maps.Clone(c.reported)
	}
	c.opened, c.pending = true, nil
	return req
}

func (e *envoy) watch(t view.Type, name string) {
	c := e.types[t]
	if !c.names[name] {
		c.names[name] = true
		c.pending = append(slices.DeleteFunc(c.pending, func(p string) bool { return p == "-"+name }), "+"+name)
	}
}

func (e *envoy) unwatch(t view.Type, name string) {
	c := e.types[t]
	if c.names[name] {
		delete(c.names, name)
		delete(c.held, name)
		delete(c.reported, name)
		c.pending = append(slices.DeleteFunc(c.pending, func(p string) bool { return p == "+"+name }), "-"+name)
	}
}

// say sends pending subscriptions. As in Envoy they go when a response has been read, before its ACK, or with the next ACK.
func (e *envoy) say() {
	for _, t := range []view.Type{view.Endpoint, view.Route} {
		if len(e.types[t].pending) > 0 && rapid.IntRange(0, 3).Draw(e.t, "delay") > 0 {
			e.ask(t)
		}
	}
}

// read takes the next response.
func (e *envoy) read() {
	r := e.down[0]
	e.down = e.down[1:]
	e.t.Logf("< %s %s %v -%v", r.Type, r.Nonce, notesOf(r.Upserts), r.Removed)
	e.check(r.Response)
	c := e.types[r.Type]
	c.nonce = r.Nonce
	bad, atomic := e.refuses(r.Response)
	if bad == "" || !atomic {
		e.apply(r)
	}
	if bad != "" && r.Type == view.Endpoint {
		e.coolDown()
	}
	if bad == "" {
		for _, u := range r.Upserts {
			if r.Type.Wildcard() || c.names[u.Name()] {
				c.reported[u.Name()] = r.own.Version(u).String()
			}
		}
		for name := range c.reported {
			if _, ok := c.held[name]; !ok {
				delete(c.reported, name)
			}
		}
	}
	e.makesBeforeItBreaks()
	e.say()
	if bad == "" {
		c.version = r.Version
	}
	ack := e.request(r.Type)
	ack.Nonce = r.Nonce
	if bad != "" {
		e.lenient = true
		ack.Nack = &session.Nack{Code: 13, Message: bad}
	}
	if r.Type == view.Cluster {
		e.acks = append(e.acks, ack)
	} else {
		e.up = append(e.up, ack)
	}
	e.release()
}

// release says what is to be said of clusters if none warms: that the client wants them, and their ACKs.
func (e *envoy) release() {
	if len(e.warming) == 0 {
		e.started = true
		if !e.types[view.Cluster].opened {
			e.ask(view.Cluster)
		}
		e.up = append(e.up, e.acks...)
		e.acks = nil
	}
}

// check finds what no server may send.
func (e *envoy) check(r session.Response) {
	if e.nonces[r.Nonce] {
		e.t.Fatalf("nonce %s twice", r.Nonce)
	}
	e.nonces[r.Nonce] = true
	if !e.types[r.Type].opened {
		e.t.Fatalf("a response of %s, which was never asked for", r.Type)
	}
	names := map[string]bool{}
	for _, name := range append(namesOf(r.Upserts), r.Removed...) {
		if names[name] {
			e.t.Fatalf("%s twice in %s", name, r.Nonce)
		}
		names[name] = true
	}
	if len(r.Removed) > 0 && (r.Type == view.Endpoint || r.Type == view.Route || e.protocol == session.StateOfTheWorld) {
		e.t.Fatalf("removal of %s %v", r.Type, r.Removed)
	}
	if r.Shared != nil && (r.Shared.Own || !slices.Equal(r.Shared.Upserts, r.Upserts)) {
		e.t.Fatalf("%s is shared and is not", r.Nonce)
	}
}

// refuses returns Envoy's words if the response is refused, and whether nothing of it is applied.
func (e *envoy) refuses(r session.Response) (message string, atomic bool) {
	var bad []string
	for _, u := range r.Upserts {
		if strings.Contains(noteOf(u), "X") {
			bad = append(bad, u.Name())
		}
	}
	if len(bad) == 0 {
		return "", false
	}
	if rapid.Bool().Draw(e.t, "atomic") {
		return "undecodable", true
	}
	switch r.Type {
	case view.Cluster:
		return "Error adding/updating cluster(s) " + strings.Join(bad, ": why, ") + ": why", false
	case view.Listener:
		return "Error adding/updating listener(s) " + strings.Join(bad, ": why, ") + ": why", false
	case view.Route:
		return "Only a single wildcard domain is permitted in route " + bad[0], false
	}
	return "malformed IP address: X", false
}

func (e *envoy) apply(r arrival) {
	c := e.types[r.Type]
	for _, u := range r.Upserts {
		it := item{note: noteOf(u), version: r.own.Version(u).String()}
		if strings.Contains(it.note, "X") {
			continue
		}
		changed := c.held[u.Name()] != it
		switch r.Type {
		case view.Cluster:
			c.held[u.Name()] = it
			if changed {
				e.addCluster(u.Name())
			}
		case view.Listener:
			c.held[u.Name()] = it
			e.starting[u.Name()] = target(it.note)
			e.watch(view.Route, target(it.note))
		default:
			if c.names[u.Name()] {
				c.held[u.Name()] = it
				delete(e.warming, u.Name())
				e.warm[u.Name()] = true
			}
		}
	}
	removed := r.Removed
	if e.protocol == session.StateOfTheWorld && r.Type.Wildcard() {
		names := namesOf(r.Upserts)
		for name := range c.held {
			if !slices.Contains(names, name) {
				removed = append(removed, name)
			}
		}
	}
	for _, name := range removed {
		delete(c.held, name)
		e.drop(r.Type, name)
	}
	e.startListeners()
}

func (e *envoy) addCluster(name string) {
	if name[0] != 'e' {
		e.warm[name] = true
		return
	}
	e.warming[name] = true
	if !e.types[view.Endpoint].names[name] && rapid.IntRange(0, 4).Draw(e.t, "sleep") == 0 {
		e.sleeping[name] = true
		return
	}
	e.watch(view.Endpoint, name)
	if e.protocol == session.StateOfTheWorld {
		e.ask(view.Endpoint)
	}
}

// coolDown ends all warming, as a refused response for endpoints does: the new clusters go to work without endpoints.
func (e *envoy) coolDown() {
	c := e.types[view.Endpoint]
	for name := range e.warming {
		if c.names[name] {
			delete(e.warming, name)
			delete(c.held, name)
		}
	}
}

// wake makes clusters watch their endpoints that did not yet, as Envoy does when it starts up.
func (e *envoy) wake() {
	for name := range e.sleeping {
		e.watch(view.Endpoint, name)
	}
	clear(e.sleeping)
	e.flush()
}

// flush says what was held back.
func (e *envoy) flush() {
	for _, t := range []view.Type{view.Endpoint, view.Route} {
		if len(e.types[t].pending) > 0 {
			e.ask(t)
		}
	}
}

func (e *envoy) drop(t view.Type, name string) {
	switch t {
	case view.Cluster:
		delete(e.warming, name)
		delete(e.warm, name)
		delete(e.sleeping, name)
		e.unwatch(view.Endpoint, name)
	case view.Listener:
		delete(e.active, name)
		delete(e.starting, name)
	}
}

// startListeners puts listeners to work whose routes are there, and ends the watch of routes that none uses any more.
func (e *envoy) startListeners() {
	routes := e.types[view.Route]
	for name, route := range e.starting {
		if _, ok := routes.held[route]; ok {
			e.active[name] = route
			delete(e.starting, name)
		}
	}
	for name := range routes.names {
		if !slices.Contains(slices.Collect(maps.Values(e.active)), name) &&
			!slices.Contains(slices.Collect(maps.Values(e.starting)), name) {
			e.unwatch(view.Route, name)
		}
	}
}

// makesBeforeItBreaks finds routes in use that name a cluster that is not there or was never warm.
func (e *envoy) makesBeforeItBreaks() {
	if e.lenient {
		return
	}
	for listener, route := range e.active {
		note := e.types[view.Route].held[route].note
		for _, cluster := range strings.Split(target(note), "+") {
			if cluster != "" && !e.warm[cluster] {
				e.t.Fatalf("listener %s uses %s, and %s is not there", listener, note, cluster)
			}
		}
	}
}

func target(note string) string {
	_, after, _ := strings.Cut(note, ">")
	return after
}
