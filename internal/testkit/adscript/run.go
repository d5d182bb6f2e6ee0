package adscript

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// patience is how long anything may take that should happen in a moment; on a busy machine moments
// are long.
const patience = 3 * time.Minute

// pollEvery is how often Until looks.
const pollEvery = 5 * time.Millisecond

// markerName is the runtime layer whose updates Settle uses.
const markerName = "adscript-marker"

// Options of a Run; the zero value is delta as Lateen's own bootstrap has it.
type Options struct {
	StateOfTheWorld bool
	// NodeInEveryMessage leaves set_node_on_first_message_only unset, as bootstraps do that say
	// nothing.
	NodeInEveryMessage bool
	// Drain is how long replaced and removed listeners serve on; 0 is a second. Whole seconds.
	Drain time.Duration
	// Metadata is that of the node.
	Metadata *structpb.Struct
}

// Run is one Envoy and the server that it talks to.
type Run struct {
	t       testing.TB
	envoy   *process
	started time.Time

	mu         sync.Mutex // guards what follows
	changed    chan struct{}
	streams    int
	current    *stream
	log        []*record
	marked     int // markers sent
	nonces     int
	transcript []string
}

// Start starts a server and an Envoy. Both end with the test.
func Start(t testing.TB, o Options) *Run {
	t.Helper()
	r := &Run{t: t, started: time.Now(), changed: make(chan struct{})}
	port, stop, err := r.serve()
	if err != nil {
		t.Fatalf("adscript: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.Transcript())
		}
	})
	t.Cleanup(stop)
	r.envoy = startEnvoy(t, o, port)
	t.Cleanup(r.envoy.kill)
	r.wait("the admin address", func() bool { return r.envoy.readAdminAddress() })
	return r
}

// Transcript is all that was said so far, a line each, and the end of Envoy's log.
func (r *Run) Transcript() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return "transcript:\n" + strings.Join(r.transcript, "\n") + "\nEnvoy's log:\n" + r.envoy.tail()
}

// Send sends responses one behind the other on the stream that is open, and returns the nonce of
// the last.
func (r *Run) Send(responses ...Response) (nonce string) {
	r.t.Helper()
	r.awaitStream()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resp := range responses {
		if resp.Nonce == "" {
			r.nonces++
			resp.Nonce = "n" + strconv.Itoa(r.nonces)
		}
		r.note("%d %s", r.current.number, resp)
		if err := r.current.write(resp); err != nil {
			r.t.Errorf("adscript: send %s: %v", resp, err)
		}
		nonce = resp.Nonce
	}
	return nonce
}

// Settle returns when Envoy has handled all that was sent on this stream.
func (r *Run) Settle() {
	r.t.Helper()
	r.AwaitOpen(marker)
	r.mu.Lock()
	nonce, err := r.sendMarker()
	r.mu.Unlock()
	if err != nil {
		r.t.Fatalf("adscript: settle: %v", err)
	}
	r.AwaitAck(nonce)
}

// sendMarker sends a new version of the marker. The caller holds mu.
func (r *Run) sendMarker() (nonce string, err error) {
	r.marked++
	version := strconv.Itoa(r.marked)
	layer, err := structpb.NewStruct(map[string]any{markerName: version})
	if err != nil {
		return "", err
	}
	resp := Push(version, &runtimev3.Runtime{Name: markerName, Layer: layer})
	resp.Nonce = "marker" + version
	return resp.Nonce, r.current.write(resp)
}

// Drop ends the stream. Envoy opens the next one by itself: see Reconnect.
func (r *Run) Drop() {
	r.t.Helper()
	r.awaitStream()
	r.mu.Lock()
	s := r.current
	s.ended = true
	r.mu.Unlock()
	close(s.dropped)
}

// Reconnect drops the stream and returns the first request of the next one. That is the one for
// clusters, unless one warms: then Envoy does not open that type before it is warm.
func (r *Run) Reconnect() Request {
	r.t.Helper()
	r.Drop()
	return r.Await("a new stream", func(Request) bool { return true })
}

func (r *Run) awaitStream() {
	r.t.Helper()
	r.wait("an open stream", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.current != nil && !r.current.ended
	})
}

// Await returns the first request on the stream that is open, or the next one if none is, for which
// is holds.
func (r *Run) Await(what string, is func(Request) bool) (found Request) {
	r.t.Helper()
	r.wait(what, func() bool {
		for _, req := range r.here() { // is may ask the Run, so that mu is not held
			if req.Type != marker && is(req) {
				found = req
				return true
			}
		}
		return false
	})
	return found
}

// here are the requests of the stream that is open.
func (r *Run) here() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Request
	for _, c := range r.log {
		if r.current != nil && !r.current.ended && c.Stream == r.current.number {
			all = append(all, c.Request)
		}
	}
	return all
}

// await is Await with a condition that holds mu.
func (r *Run) await(what string, is func(before []*record, candidate *record) bool) (found Request) {
	r.t.Helper()
	r.wait(what, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.current == nil || r.current.ended {
			return false
		}
		for i, c := range r.log {
			if c.Stream == r.current.number && is(r.log[:i], c) {
				found = c.Request
				return true
			}
		}
		return false
	})
	return found
}

// AwaitOpen returns the first request of a type on this stream.
func (r *Run) AwaitOpen(t Type) Request {
	r.t.Helper()
	return r.await(fmt.Sprintf("first request of %s", t), func(before []*record, c *record) bool {
		return c.Type == t && c.opens(before)
	})
}

// AwaitSubscribe returns the request that subscribes to a name. Each subscription is returned once.
func (r *Run) AwaitSubscribe(t Type, name string) Request {
	r.t.Helper()
	return r.await(fmt.Sprintf("subscription of %s %s", t, name), func(_ []*record, c *record) bool {
		i := slices.Index(c.untaken, name)
		if c.Type != t || i < 0 {
			return false
		}
		c.untaken = slices.Delete(c.untaken, i, i+1)
		return true
	})
}

// AwaitUnsubscribe returns the first request of this stream that ends the subscription of a name.
func (r *Run) AwaitUnsubscribe(t Type, name string) Request {
	r.t.Helper()
	return r.await(fmt.Sprintf("end of subscription of %s %s", t, name), func(_ []*record, c *record) bool {
		return c.Type == t && slices.Contains(c.Unsubscribe, name)
	})
}

// AwaitAnswer returns the ACK or NACK of the response with a nonce.
func (r *Run) AwaitAnswer(nonce string) Request {
	r.t.Helper()
	return r.await("answer to "+nonce, func(_ []*record, c *record) bool { return c.Nonce == nonce })
}

// AwaitAck is AwaitAnswer, and fails the test if it is a NACK.
func (r *Run) AwaitAck(nonce string) Request {
	r.t.Helper()
	answer := r.AwaitAnswer(nonce)
	if answer.Error != nil {
		r.t.Fatalf("adscript: %s is refused: %s", nonce, answer)
	}
	return answer
}

// AwaitNack is AwaitAnswer, and fails the test if it is an ACK.
func (r *Run) AwaitNack(nonce string) Request {
	r.t.Helper()
	answer := r.AwaitAnswer(nonce)
	if answer.Error == nil {
		r.t.Fatalf("adscript: %s is not refused: %s", nonce, answer)
	}
	return answer
}

// Mark is a position in the log of requests, for Since.
func (r *Run) Mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.log)
}

// Since are the requests behind a position, of all streams, without those of Settle.
func (r *Run) Since(mark int) []Request {
	return slices.DeleteFunc(r.All()[mark:], func(req Request) bool { return req.Type == marker })
}

// All are all requests so far, with those of Settle.
func (r *Run) All() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Request
	for _, c := range r.log {
		all = append(all, c.Request)
	}
	return all
}

// Answered reports whether the response with a nonce has been answered, now.
func (r *Run) Answered(nonce string) bool {
	return slices.ContainsFunc(r.All(), func(req Request) bool { return req.Nonce == nonce })
}

// Until returns when holds does, which it asks again and again.
func (r *Run) Until(what string, holds func() bool) {
	r.t.Helper()
	r.wait(what, holds)
}

// AwaitExit waits until Envoy has ended by itself, and returns how, and the end of its log.
func (r *Run) AwaitExit() (*os.ProcessState, string) {
	r.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	select {
	case <-r.envoy.exited:
	case <-deadline.C:
		r.t.Fatalf("adscript: Envoy still runs")
	}
	return r.envoy.cmd.ProcessState, r.envoy.tail()
}

// wait asks at each request and each tick. It fails the test after patience, or when Envoy exits.
func (r *Run) wait(what string, holds func() bool) {
	r.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-r.envoy.exited:
			r.t.Fatalf("adscript: Envoy exited (%s) while the test waited for: %s", r.envoy.cmd.ProcessState, what)
		case <-deadline.C:
			r.t.Fatalf("adscript: this did not happen: %s", what)
		}
	}
}
