package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// streams is how many connections of one class a push goes to.
const streams = 1000

// BenchmarkFanout encodes a step of a class for the first of its streams and for each other one,
// and brings 1,000 streams to the next generation: woken, told, encoded, acknowledged; all that is
// not gRPC.
func BenchmarkFanout(b *testing.B) {
	atEachSize(b, func(b *testing.B, services int) {
		c := newCompiled(b, services, openProxy)
		before, after := c.step(openProxy, editEndpoint)
		from, to := before.Set(resource.Endpoint), after.Set(resource.Endpoint)
		change(b, "firstframe", func(b *testing.B) {
			for b.Loop() {
				encode(resource.NewDiffer(1).Diff(resource.Endpoint, from, to))
			}
		})
		change(b, "nextframe", func(b *testing.B) {
			step := resource.NewDiffer(1).Diff(resource.Endpoint, from, to)
			encode(step)
			for b.Loop() {
				encode(step)
			}
		})
		f := newFleet(b, after)
		eachEdit(b, edits, c.next, func(b *testing.B, e editOf) {
			before, after := c.step(openProxy, e.edit)
			states := numbered{before, after}
			f.push(states.next()) // which brings all of them here
			sent := 0
			for b.Loop() {
				sent = f.push(states.next())
			}
			require.NotZero(b, sent)
			b.ReportMetric(float64(sent)/streams, "sent-B/stream")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*streams), "ns/stream")
		})
	})
}

func encode(step *resource.Change) fanout.Frame {
	return fanout.Encode(session.Delta, session.Response{
		Type:    step.Type,
		Nonce:   "e1",
		Upserts: step.Upserts,
		Shared:  step,
	}, resource.Overlay{})
}

// fleet are streams of one class without sockets.
type fleet struct {
	hub      *fanout.Hub
	conns    []*fanout.Conn
	sessions []*session.Session
}

const class fanout.ClassID = 1

func newFleet(tb testing.TB, state resource.State) *fleet {
	f := &fleet{hub: fanout.NewHub(fanout.Options{
		Metrics: observe.New(observe.Build{Start: now, Now: time.Now}), Now: time.Now,
	})}
	differ := resource.NewDiffer(64)
	client := newClient(state)
	for range streams {
		conn := f.hub.Register(class, state, resource.Overlay{})
		conn.Take()
		f.conns, f.sessions = append(f.conns, conn), append(f.sessions, client.connect(tb, differ))
	}
	return f
}

// push brings all streams to a state, and returns the bytes of all frames.
func (f *fleet) push(state resource.State) int {
	f.hub.Publish(fanout.Generation{
		Number: state.Generation(), Observed: now, Changed: []fanout.ClassChange{{Class: class, State: state}},
	})
	for i, conn := range f.conns {
		p, _ := conn.Take()
		s := f.sessions[i]
		for responses := s.Update(p.State, p.Overlay, now); len(responses) > 0; {
			r := responses[0]
			conn.Sent(r.Generation, fanout.Load{
				Bytes: fanout.Encode(session.Delta, r, p.Overlay).Size,
				Envoy: s.State().EnvoyTime(r.Type, r.Upserts, r.Removed, r.Shared),
			})
			responses = append(responses[1:], s.Request(session.Request{TypeURL: r.Type.URL(), Nonce: r.Nonce}, now)...)
		}
		conn.Acknowledged(s.AckedGeneration())
	}
	return int((<-f.hub.Finished()).Bytes)
}
