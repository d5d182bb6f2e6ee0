package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	statusv1 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// caller is a client without a network: it is the stream that serve gets of grpc-go.
type caller struct {
	grpc.ServerStream

	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when serve has returned

	mu       sync.Mutex
	requests [][]byte
	unread   []*discoveryv3.DeltaDiscoveryResponse // responses without an answer
	reads    bool
	changed  chan struct{} // closed and replaced when one of these changes
}

// signal tells who waits that something has changed. The caller holds mu.
func (c *caller) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until a condition holds, which it looks at with mu.
func (c *caller) await(holds func() bool) error {
	for {
		c.mu.Lock()
		if holds() {
			return nil // with mu
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-c.ctx.Done():
			return io.EOF
		}
	}
}

// Context implements grpc.ServerStream.
func (c *caller) Context() context.Context { return c.ctx }

// RecvMsg implements grpc.ServerStream.
func (c *caller) RecvMsg(m any) error {
	if err := c.await(func() bool { return len(c.requests) > 0 }); err != nil {
		return err
	}
	defer c.mu.Unlock()
	raw := c.requests[0]
	c.requests = c.requests[1:]
	return newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, m)
}

// SendMsg implements grpc.ServerStream. It is stuck while the client does not read.
func (c *caller) SendMsg(m any) error {
	buffers, err := newCodec().Marshal(m)
	if err != nil {
		return err
	}
	defer buffers.Free()
	if err := c.await(func() bool { return c.reads }); err != nil {
		return err
	}
	defer c.mu.Unlock()
	var r discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(buffers.Materialize(), &r); err != nil {
		return err
	}
	c.unread = append(c.unread, &r)
	return nil
}

func (c *caller) ask(r *discoveryv3.DeltaDiscoveryRequest) {
	raw, err := proto.Marshal(r)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, raw)
	c.signal()
}

func (c *caller) setReads(reads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads = reads
	c.signal()
}

// answer answers all that has come, and returns how much that was. Tools do not answer.
func (c *caller) answer(nack *statusv1.Status) int {
	c.mu.Lock()
	unread := c.unread
	c.unread = nil
	c.mu.Unlock()
	for _, r := range unread {
		if r.GetTypeUrl() == InspectionType {
			continue
		}
		c.ask(&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce(), ErrorDetail: nack,
		})
	}
	return len(unread)
}

// crowd is a server and a few callers, in a bubble of synctest.
type crowd struct {
	*fixture
	callers []*caller
	spun    chan struct{} // closed when a worker has spun

	changing sync.Mutex
	number   uint64 // of the newest generation
}

// spinLimit is how many pushes of one test may find nothing to do. Nothing that a test does makes
// more than a few.
const spinLimit = 10_000

// spinCounter is the counter of such pushes. It stops a worker that spins.
type spinCounter struct {
	prometheus.Counter

	mu   sync.Mutex
	n    int
	spun chan struct{}
}

// Inc implements prometheus.Counter.
func (s *spinCounter) Inc() {
	s.mu.Lock()
	s.n++
	n := s.n
	s.mu.Unlock()
	if n < spinLimit {
		return
	}
	if n == spinLimit {
		close(s.spun)
	}
	runtime.Goexit()
}

func newCrowd(t *testing.T) *crowd {
	f := &fixture{t: t, store: resource.NewStore(), log: &lockedBuffer{}}
	f.metrics = observe.New(observe.Build{Start: time.Now(), Now: time.Now})
	c := &crowd{fixture: f, number: 1, spun: make(chan struct{})}
	f.metrics.Push.Empty = &spinCounter{Counter: f.metrics.Push.Empty, spun: c.spun}
	f.hub = fanout.NewHub(fanout.Options{Throttle: 1, Metrics: f.metrics, Now: time.Now})
	f.state = f.clusters(1, 1, "a")
	f.server = New(Options{
		Registrar: f, Pushes: f.hub, Differ: resource.NewDiffer(64), Metrics: f.metrics,
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Hold: time.Second, Inspector: inspectorFunc(c.inspected),
	})
	return c
}

// inspected answers a tool after a generation is published, and all else waits: the push has found
// the session busy.
func (c *crowd) inspected() Inspection {
	c.change()
	<-time.After(time.Millisecond)
	return Inspection{}
}

func (c *crowd) change() {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.number++
	c.publish(c.clusters(c.number, int(c.number), "a", fmt.Sprint("b", c.number%3)))
}

func (c *crowd) open(i int) {
	ctx, cancel := context.WithCancelCause(context.Background())
	one := &caller{
		ctx: context.WithValue(ctx, cancelKey{}, cancel), cancel: cancel, reads: true,
		ended: make(chan struct{}), changed: make(chan struct{}),
	}
	c.callers = append(c.callers, one)
	go func() {
		defer close(one.ended)
		_ = c.server.handler(session.Delta)(nil, one)
	}()
	one.ask(&discoveryv3.DeltaDiscoveryRequest{
		Node:    &corev3.Node{Id: fmt.Sprintf("sidecar~127.0.0.%d~p%d.default~default.svc.cluster.local", 2+i, i)},
		TypeUrl: resource.Cluster.URL(),
	})
}

// act is one thing that happens to a crowd.
type act struct {
	What   string
	Caller int
	// Settles waits until nothing goes on any more. Else the next act comes at once.
	Settles bool
}

func (c *crowd) do(a act) {
	one := c.callers[a.Caller%len(c.callers)]
	switch a.What {
	case "publish":
		c.change()
	case "request":
		one.ask(&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: resource.Cluster.URL(), ResourceNamesSubscribe: []string{"a", "b1"},
		})
	case "tool":
		one.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: InspectionType})
	case "stall":
		one.setReads(false)
	case "read":
		one.setReads(true)
	case "acknowledge":
		one.answer(nil)
	case "refuse":
		one.answer(&statusv1.Status{Code: int32(codes.Internal), Message: "Error adding/updating cluster(s) a: bad"})
	case "leave":
		one.cancel(errors.New("left"))
	case "come":
		c.open(len(c.callers))
	case "wait 150 ms":
		<-time.After(150 * time.Millisecond) // a stalled push gives its slot back
	case "wait 2 s":
		<-time.After(2 * time.Second) // the session's ticks fire
	}
	if a.Settles {
		c.settle()
	}
}

// settle waits until all goroutines wait, or a worker has spun.
func (c *crowd) settle() { synctest.Wait() }

var acts = []string{
	"publish", "publish", "request", "request", "tool", "stall", "stall", "read", "acknowledge", "refuse", "leave",
	"come", "wait 150 ms", "wait 2 s",
}

// end has all who are there read and acknowledge, and says what is wrong then.
func (c *crowd) end() string {
	for rounds, quiet := 0, 0; quiet < 3 && rounds < 200; rounds, quiet = rounds+1, quiet+1 {
		c.settle()
		for _, one := range c.callers {
			one.setReads(true)
			if one.answer(nil) > 0 {
				quiet = 0
			}
		}
		<-time.After(5 * time.Second)
	}
	c.settle()
	return c.fault()
}

// fault says what is wrong with a crowd that has had its time.
func (c *crowd) fault() string {
	select {
	case <-c.spun:
		return "a worker spins"
	default:
	}
	if c.hub.Calm() != nil || c.value("lateen_push_slots_busy") != 0 {
		return "a slot is busy"
	}
	left := map[string]bool{}
	for i, one := range c.callers {
		select {
		case <-one.ended:
			left[fmt.Sprintf("p%d.default", i)] = true
		default:
		}
	}
	clients := c.server.Clients()
	if len(clients)+len(left) != len(c.callers) {
		return fmt.Sprintf("%d of %d are there, and %d have left", len(clients), len(c.callers), len(left))
	}
	for _, one := range clients {
		if one.Behind || one.State.Generation() != c.number {
			return fmt.Sprintf("%s is forgotten at generation %d of %d", one.Node.Name, one.State.Generation(),
				c.number)
		}
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if c.hub.Settle(over, c.number) != nil {
		return "somebody has not acknowledged the newest generation"
	}
	for st := range c.server.streams {
		if s := st.driver.now(); s != (driveState{phase: idle}) {
			return fmt.Sprintf("%s rests as %+v", st.id, s)
		}
	}
	return ""
}

// play has the acts happen, and says what is wrong in the end.
func play(t *testing.T, all []act) (fault string) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		for i := range 3 {
			c.open(i)
		}
		c.settle()
		for _, a := range all {
			c.do(a)
		}
		fault = c.end()
		for _, one := range c.callers {
			one.cancel(errors.New("the test is over"))
		}
		c.settle()
		if fault == "" && (c.hub.Calm() != nil || len(c.server.streams) > 0) {
			fault = "something is left when all have gone"
		}
	})
	return fault
}

// TestAnyOrderLeavesThePoolQuietAndForgetsNobody: whatever clients do, no slot is busy when nothing
// is left to do, and each client that is there has the newest state.
func TestAnyOrderLeavesThePoolQuietAndForgetsNobody(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) act {
			return act{
				What:    rapid.SampledFrom(acts).Draw(rt, "what"),
				Caller:  rapid.IntRange(0, 5).Draw(rt, "caller"),
				Settles: rapid.Bool().Draw(rt, "settles"),
			}
		}), 1, 30).Draw(rt, "acts")
		if fault := play(t, all); fault != "" {
			rt.Fatal(fault)
		}
	})
}

// TestMissedPushOfAStreamThatLeaves plays what once kept a worker busy for ever.
func TestMissedPushOfAStreamThatLeaves(t *testing.T) {
	var all []act
	for caller := range 2 {
		all = append(all, act{"stall", caller, false}, act{"request", caller, true})
	}
	all = append(all, act{"stall", 2, true}, act{"publish", 0, true}) // the slot is caller 2's
	for caller := range 3 {
		all = append(all, act{"leave", caller, false})
	}
	if fault := play(t, all); fault != "" {
		t.Fatal(fault)
	}
}
