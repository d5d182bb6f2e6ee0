package session_test

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/testkit/envoymodel"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// client is the model of Envoy at the other end of a session, and the wire between: it reads the
// frames that fanout writes, when it pleases, and its requests arrive when they please. It is
// strict: it fails the test at what no server may send, and at what an Envoy would answer with an
// outage.
type client struct {
	t        *rapid.T
	protocol session.Protocol
	session  *session.Session
	envoy    *envoymodel.Envoy
	now      time.Time
	down     []arrival
	up       []proto.Message

	// Of this stream.
	nonces   map[string]bool
	said     map[string]bool                      // type URLs of requests
	opened   map[string]bool                      // of those that arrived
	carried  map[string][]string                  // names by nonce, of this stream
	versions [resource.NumTypes]map[string]string // of bodies that were sent
	// refused are names in responses that the client ever refused, and whether the server was told.
	refused [resource.NumTypes]map[string]bool
	// unknowable are resources of which the client claims a version that it does not have, because
	// it refused a response and the session cannot know (the server restarted, or the refusal was
	// lost with its stream). They may stay wrong until a response with them is accepted.
	unknowable [resource.NumTypes]map[string]bool
	// unmended are filters that the client had before this stream began, or refused then without
	// the server hearing of it, and has not had from this one. If it refuses one, the session has
	// nothing that mends that.
	unmended map[string]bool

	// lenient tells that a hold may have ended before what it waits for: time passed while messages
	// were under way, or something was refused.
	lenient bool
	// steady tells that no table of the class is ever without virtual hosts; then a table that has
	// had any is not either.
	steady bool
	hosted map[string]bool
	// left are route tables that the client gave up on this stream. If it takes one again, what the
	// server does to the first may reach it after the second.
	left map[string]bool
}

// arrival is a response on its way.
type arrival struct {
	session.Response
	wire []byte
}

// drain is the proxy's drain time, which the session is told.
const drain = 5 * time.Second

func newClient(t *rapid.T, p session.Protocol, hostile bool) *client {
	c := &client{t: t, protocol: p, now: time.Unix(1000, 0), hosted: map[string]bool{}}
	o := envoymodel.Options{
		Drain:   drain,
		Lag:     func() bool { return rapid.IntRange(0, 4).Draw(t, "lag") == 0 },
		SlowDNS: rapid.Bool().Draw(t, "slow DNS"),
	}
	if p == session.StateOfTheWorld {
		o.Protocol = envoymodel.StateOfTheWorld
	}
	if hostile {
		o.Shuffle = c.shuffle
	}
	c.envoy = envoymodel.New(o, c.now)
	for typ := range c.refused {
		c.versions[typ], c.refused[typ], c.unknowable[typ] = map[string]string{}, map[string]bool{}, map[string]bool{}
	}
	return c
}

func (c *client) shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, rapid.IntRange(0, i).Draw(c.t, "recipient"))
	}
}

// connect opens a stream to a session. What was under way is lost.
func (c *client) connect(s *session.Session) {
	c.t.Logf("connect")
	c.session = s
	c.carried = map[string][]string{}
	c.down, c.up = nil, nil
	c.left, c.unmended = map[string]bool{}, map[string]bool{}
	for name, told := range c.refused[resource.Filter] {
		c.unmended[name] = !told
	}
	c.nonces, c.said, c.opened = map[string]bool{}, map[string]bool{}, map[string]bool{}
	said := c.envoy.Connect()
	c.lenient = c.lenient || hides(said)
	c.says(said)
}

// hasWholeTables reports whether the client has a table that does without VHDS.
func (c *client) hasWholeTables() bool {
	for _, body := range c.envoy.Bodies(envoymodel.Routes) {
		var table routev3.RouteConfiguration
		if err := proto.Unmarshal([]byte(body), &table); err != nil {
			c.t.Fatal(err)
		}
		if table.GetVhds() == nil {
			return true
		}
	}
	return false
}

// forgets is what a server that restarts does: it was told of no refusal.
func (c *client) forgets() {
	for _, names := range c.refused {
		for name := range names {
			names[name] = false
		}
	}
}

// hides reports whether a client does not ask for clusters, because one of them warms, and that
// nothing it asks for shows that it had a stream before: there is no way to tell it from one that
// wants no clusters at all.
func hides(said []proto.Message) bool {
	return !slices.ContainsFunc(said, func(m proto.Message) bool {
		req := requestOf(m)
		return req.TypeURL == resource.Cluster.URL() || len(req.InitialVersions) > 0 || req.VersionInfo != ""
	})
}

// send puts responses on the wire, as the shell does.
func (c *client) send(responses []session.Response) {
	if misjudged := c.session.Misjudged(); len(misjudged) > 0 {
		c.t.Fatalf("of %v something is to be done", misjudged)
	}
	for _, r := range responses {
		c.check(r)
		c.carried[r.Nonce] = append(namesOf(r.Upserts), r.Removed...)
		for _, u := range r.Upserts {
			own := c.session.Overlay()
			c.versions[r.Type][flat(r.Type, string(own.Body(r.Type, u)))] = own.Version(u).String()
		}
		frame := fanout.Encode(c.protocol, r, c.session.Overlay())
		c.down = append(c.down, arrival{r, bytes.Join(frame.Parts, nil)})
	}
}

func (c *client) says(requests []proto.Message) {
	for _, m := range requests {
		if r, ok := m.(*discoveryv3.DeltaDiscoveryRequest); ok {
			c.findLies(r)
			for _, name := range r.GetResourceNamesUnsubscribe() {
				c.left[name] = true
			}
		}
	}
	c.up = append(c.up, requests...)
	c.makesBeforeItBreaks()
}

// findLies looks for what the client claims and does not have.
func (c *client) findLies(r *discoveryv3.DeltaDiscoveryRequest) {
	kind, _ := envoymodel.KindByURL(r.GetTypeUrl())
	t, _ := resource.TypeByURL(r.GetTypeUrl())
	if c.said[r.GetTypeUrl()] {
		return // only the first of a type claims anything
	}
	c.said[r.GetTypeUrl()] = true
	has := c.envoy.Bodies(kind)
	if t == resource.Filter {
		for name := range r.GetInitialResourceVersions() {
			c.unmended[name] = true
		}
	}
	for name, told := range c.refused[t] {
		if c.versions[t][flat(t, has[name])] != r.GetInitialResourceVersions()[name] && !told {
			c.unknowable[t][name] = true
		}
	}
}

// read takes the next response.
func (c *client) read() {
	r := c.down[0]
	c.down = c.down[1:]
	c.t.Logf("< %s %s %v -%v", r.Type, r.Nonce, namesOf(r.Upserts), r.Removed)
	var m proto.Message = &discoveryv3.DeltaDiscoveryResponse{}
	if c.protocol == session.StateOfTheWorld {
		m = &discoveryv3.DiscoveryResponse{}
	}
	if err := proto.Unmarshal(r.wire, m); err != nil {
		c.t.Fatalf("%s cannot be read: %v", r.Nonce, err)
	}
	before := c.envoy.Refused()
	said := c.envoy.Receive(m)
	if c.envoy.Refused() > before {
		c.lenient = true
		for _, name := range append(namesOf(r.Upserts), r.Removed...) {
			c.refused[r.Type][name] = false
		}
	} else {
		for _, name := range append(namesOf(r.Upserts), r.Removed...) {
			delete(c.unknowable[r.Type], name)
		}
	}
	if r.Type == resource.Filter {
		has := c.envoy.Bodies(envoymodel.Filters)
		for _, u := range r.Upserts {
			if has[u.Name()] == string(u.Body()) {
				delete(c.unmended, u.Name())
			}
		}
	}
	c.says(said)
}

// deliver brings the next request to the session.
func (c *client) deliver() {
	m := c.up[0]
	c.up = c.up[1:]
	c.t.Logf("%s", envoymodel.Describe(m))
	req := requestOf(m)
	c.opened[req.TypeURL] = true
	if t, ok := resource.TypeByURL(req.TypeURL); ok && req.Nack != nil {
		for _, name := range c.carried[req.Nonce] {
			c.refused[t][name] = true
		}
	}
	c.send(c.session.Request(req, c.now))
}

func (c *client) pass(d time.Duration) {
	c.t.Logf("%s pass", d)
	c.now = c.now.Add(d)
	c.says(c.envoy.Advance(c.now))
	c.send(c.session.Tick(c.now))
	if at, waits := c.session.NextTick(); waits && !at.After(c.now) {
		c.t.Fatalf("a tick at %s wants the next at %s", c.now, at)
	}
}

// requestOf is what the shell makes of a request.
func requestOf(m proto.Message) session.Request {
	var req session.Request
	switch r := m.(type) {
	case *discoveryv3.DeltaDiscoveryRequest:
		req = session.Request{
			TypeURL: r.GetTypeUrl(), Nonce: r.GetResponseNonce(), Subscribe: r.GetResourceNamesSubscribe(),
			Unsubscribe: r.GetResourceNamesUnsubscribe(), InitialVersions: r.GetInitialResourceVersions(),
		}
		if e := r.GetErrorDetail(); e != nil {
			req.Nack = &session.Nack{Code: e.GetCode(), Message: e.GetMessage()}
		}
	case *discoveryv3.DiscoveryRequest:
		req = session.Request{
			TypeURL:     r.GetTypeUrl(),
			Nonce:       r.GetResponseNonce(),
			Names:       r.GetResourceNames(),
			VersionInfo: r.GetVersionInfo(),
		}
		if e := r.GetErrorDetail(); e != nil {
			req.Nack = &session.Nack{Code: e.GetCode(), Message: e.GetMessage()}
		}
	}
	return req
}

// check finds what no server may send.
func (c *client) check(r session.Response) {
	if c.nonces[r.Nonce] {
		c.t.Fatalf("nonce %s twice", r.Nonce)
	}
	c.nonces[r.Nonce] = true
	if asked := r.Type.URL(); !c.opened[asked] &&
		(r.Type != resource.LbEndpoint || !c.opened[resource.Endpoint.URL()]) {
		c.t.Fatalf("a response of %s, which was never asked for", r.Type)
	}
	names := map[string]bool{}
	for _, name := range append(namesOf(r.Upserts), r.Removed...) {
		if names[name] {
			c.t.Fatalf("%s twice in %s", name, r.Nonce)
		}
		names[name] = true
	}
	if len(r.Removed) > 0 &&
		(r.Type == resource.Endpoint || r.Type == resource.Route || c.protocol == session.StateOfTheWorld) {
		c.t.Fatalf("removal of %s %v", r.Type, r.Removed)
	}
	if r.Shared != nil && (r.Shared.PerProxy || !slices.Equal(r.Shared.Upserts, r.Upserts)) {
		c.t.Fatalf("%s is shared and is not", r.Nonce)
	}
}

// makesBeforeItBreaks finds clusters that are not there, and yet listeners that serve or drain name
// them; and clusters that serve without endpoints.
func (c *client) makesBeforeItBreaks() {
	if c.lenient {
		return
	}
	if missing := c.envoy.Dangling(); len(missing) > 0 {
		c.t.Fatalf("in use and not there: %v\n%s", missing, c)
	}
	for cluster, body := range c.envoy.Bodies(envoymodel.Endpoints) {
		if body == "" || emptied(body) {
			c.t.Fatalf("cluster %s serves without endpoints\n%s", cluster, c)
		}
	}
	c.findGaps()
}

// flat makes assignments that have the same endpoints equal, in whatever order they are.
func flat(t resource.Type, body string) string {
	var a endpointv3.ClusterLoadAssignment
	if t != resource.Endpoint || proto.Unmarshal([]byte(body), &a) != nil {
		return body
	}
	return envoymodel.Flat(&a)
}

// emptied tells of an assignment that it has localities, which have no endpoint.
func emptied(body string) bool {
	var a endpointv3.ClusterLoadAssignment
	if proto.Unmarshal([]byte(body), &a) != nil {
		return false
	}
	return slices.ContainsFunc(a.GetEndpoints(), func(g *endpointv3.LocalityLbEndpoints) bool {
		return len(g.GetLbEndpoints()) == 0
	})
}

// findGaps finds tables that are in use and not there, or without a virtual host when they have had
// some.
func (c *client) findGaps() {
	hosts := c.envoy.TablesInUse()
	for table, n := range hosts {
		if n < 0 || c.steady && n == 0 && c.hosted[table] && !c.left[table] {
			c.t.Fatalf("table %s is in use with %d virtual hosts\n%s", table, n, c)
		}
	}
	for table := range c.hosted {
		c.hosted[table] = hosts[table] > 0
	}
	for table, n := range hosts {
		c.hosted[table] = n > 0
	}
}

func (c *client) String() string { return fmt.Sprintf("%+v", c.envoy.Summary()) }

func namesOf(list []*resource.Resource) []string {
	var out []string
	for _, r := range list {
		out = append(out, r.Name())
	}
	return out
}
