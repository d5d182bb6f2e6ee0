package app

import (
	"context"
	"log/slog"
	"net/netip"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// rig is the pipeline from events to frames with nothing left out but the wire: what a stream of
// xds/serve does with its session and its connection, clients do here, one after another.
type rig struct {
	tb       testing.TB
	ctx      context.Context
	pipeline *Pipeline
	sink     source.Sink
	differ   *resource.Differ
	clients  []*client
	now      time.Time
}

func newRig(tb testing.TB, objects []source.Change) *rig {
	ctx, cancel := context.WithCancel(context.Background())
	r := &rig{tb: tb, ctx: ctx, differ: resource.NewDiffer(differLimit), now: time.Unix(1000, 0)}
	r.pipeline = New(Options{
		Mesh: model.DefaultMesh(), Log: slog.New(slog.DiscardHandler), writer: state.NewCountingWriter(),
	})
	r.pipeline.compiler.CountWork()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.pipeline.loop.Run(ctx)
	}()
	tb.Cleanup(func() { cancel(); <-ended })
	r.sink = r.pipeline.loop.Sink(ctx)
	r.sink(source.Event{Changes: objects, Synced: true})
	r.flush()
	return r
}

func (r *rig) flush() (generation uint64) {
	generation, err := r.pipeline.loop.Flush(r.ctx)
	require.NoError(r.tb, err)
	return generation
}

// deliver lets the changes go through all stages up to the connections.
func (r *rig) deliver(changes ...source.Change) (generation uint64) {
	r.sink(source.Event{Changes: changes})
	return r.flush()
}

// settle lets all clients take what is due, and lets as much time pass as removals wait for.
func (r *rig) settle() {
	for range 4 {
		for _, c := range r.clients {
			c.push()
		}
		r.now = r.now.Add(session.DefaultHold)
		for _, c := range r.clients {
			c.take(c.session.Tick(r.now))
		}
	}
}

// collectionsFrom is that of xds/serve.
const collectionsFrom = 200

// client is a delta client that speaks VHDS and LEDS, acknowledges everything at once, and knows
// from the start which names it will want.
type client struct {
	rig     *rig
	conn    *fanout.Conn
	session *session.Session
	own     resource.Overlay
	sent    sent
	frames  map[*byte]bool // that it shares with others, by where their bytes lie
}

// sent is what one client, or all of them, were sent.
type sent struct {
	Responses, Resources, Removed int
	Bytes                         int // of all frames
}

func (s sent) plus(o sent, sign int) sent {
	return sent{
		Responses: s.Responses + sign*o.Responses,
		Resources: s.Resources + sign*o.Resources,
		Removed:   s.Removed + sign*o.Removed,
		Bytes:     s.Bytes + sign*o.Bytes,
	}
}

func (r *rig) sent() (all sent) {
	for _, c := range r.clients {
		all = all.plus(c.sent, 1)
	}
	return all
}

// connect is a proxy that connects and asks for all that it will want.
func (r *rig) connect(p meshgen.Proxy) *client { return r.connectNode(nodeOf(p)) }

func nodeOf(p meshgen.Proxy) *serve.Node {
	node := &serve.Node{
		Type:      serve.Sidecar,
		Address:   netip.MustParseAddr(p.Address),
		Pod:       p.Pod,
		Namespace: p.Namespace,
	}
	if p.Gateway {
		node.Type = serve.Router
	}
	node.Metadata.Labels, node.Metadata.HTTPProxyPort, node.Metadata.HTTP10 = p.Labels, p.HTTPProxyPort, p.HTTP10
	node.Metadata.InterceptionMode = serve.None
	node.UserAgent, node.Release, node.Delta = "envoy", serve.Release{Major: 1, Minor: 40}, true
	return node
}

func (r *rig) connectNode(node *serve.Node) *client {
	conn, err := r.pipeline.registry.Connect(r.ctx, node, serve.Identity{})
	require.NoError(r.tb, err)
	c := &client{
		rig:     r,
		conn:    conn,
		session: session.New(session.Options{Differ: r.differ, VirtualHosts: true, Collections: collectionsFrom}),
		frames:  map[*byte]bool{},
	}
	r.clients = append(r.clients, c)
	c.push()
	for t := range resource.Name { // which is the last type, and no Envoy's
		req := session.Request{TypeURL: t.URL()}
		if !t.Wildcard() {
			req.Subscribe = c.session.State().Set(t).Names()
		}
		if t == resource.LbEndpoint {
			for r := range c.session.State().Set(resource.Endpoint).All() {
				if in := r.Collections(); in != nil {
					req.Subscribe = append(req.Subscribe, in.Names()...)
				}
			}
		}
		if t == resource.Filter {
			continue // few listeners name any
		}
		c.take(c.session.Request(req, r.now))
	}
	c.askForFilters()
	return c
}

func (c *client) push() {
	if p, ok := c.conn.Take(); ok {
		c.own = p.Overlay
		c.take(c.session.Update(p.State, p.Overlay, c.rig.now))
		c.askForFilters()
	}
}

// askForFilters asks for the filters that listeners name, once there are any.
func (c *client) askForFilters() {
	names := c.session.State().Set(resource.Filter).Names()
	if len(names) == 0 || c.session.Status()[resource.Filter].Subscribed {
		return
	}
	c.take(c.session.Request(session.Request{TypeURL: resource.Filter.URL(), Subscribe: names}, c.rig.now))
}

// take reads responses and acknowledges them.
func (c *client) take(responses []session.Response) {
	for _, r := range responses {
		c.count(r)
		c.take(c.session.Request(session.Request{TypeURL: r.Type.URL(), Nonce: r.Nonce}, c.rig.now))
	}
	c.conn.Acknowledged(c.session.AckedGeneration())
}

func (c *client) count(r session.Response) {
	frame := fanout.Encode(session.Delta, r, c.own)
	c.sent.Responses++
	c.sent.Resources += len(r.Upserts)
	c.sent.Removed += len(r.Removed)
	c.sent.Bytes += frame.Size
	if r.Shared != nil {
		c.frames[&frame.Parts[0][0]] = true
	}
}

// cost is what one change took, in counts that are exact.
type cost struct {
	// Hits and Misses of the memo: a miss is a resource that was translated and encoded. Equal of
	// the misses came to bytes that were there.
	Hits, Misses, Equal uint64
	// Lookups are entries of the state's indexes that were looked at.
	Lookups            uint64
	Units, Evaluations uint64
	Edits              uint64 // of sets
	Generations        uint64
	Sent               sent
}

// memory is what one change took of the heap, in bytes: to compile it, and to send it.
type memory struct{ compile, send uint64 }

func (m memory) min(o memory) memory { return memory{min(m.compile, o.compile), min(m.send, o.send)} }

func (r *rig) counts() cost {
	s := r.pipeline.compiler.Stats()
	t := s.Total()
	return cost{
		Hits:        t.Hits,
		Misses:      t.Misses,
		Equal:       t.Equal,
		Lookups:     r.pipeline.Snapshot().Lookups(),
		Units:       s.Work.Units,
		Evaluations: s.Work.Evaluations,
		Edits:       s.Work.Edits,
		Generations: r.pipeline.Snapshot().Generation,
		Sent:        r.sent(),
	}
}

func (c cost) minus(o cost) cost {
	return cost{
		Hits:        c.Hits - o.Hits,
		Misses:      c.Misses - o.Misses,
		Equal:       c.Equal - o.Equal,
		Lookups:     c.Lookups - o.Lookups,
		Units:       c.Units - o.Units,
		Evaluations: c.Evaluations - o.Evaluations,
		Edits:       c.Edits - o.Edits,
		Generations: c.Generations - o.Generations,
		Sent:        c.Sent.plus(o.Sent, -1),
	}
}

// costOf lets changes go through all stages to all clients.
func (r *rig) costOf(changes ...source.Change) (cost, memory) {
	before, start := r.counts(), allocated()
	r.deliver(changes...)
	compiled := allocated()
	r.settle()
	m := memory{compile: compiled - start, send: allocated() - compiled}
	return r.counts().minus(before), m
}

// withoutCollection runs f while no garbage is collected: what a collection clears of weak tables
// is made again.
func withoutCollection(f func()) {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	f()
}

// allocated is how many bytes were ever allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
