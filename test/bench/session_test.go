package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// BenchmarkSession is what one stream costs: a change with its ACK, when others of its class have
// made the step before; a reconnect of a proxy that has everything; and its first load.
func BenchmarkSession(b *testing.B) {
	atEachSize(b, func(b *testing.B, services int) {
		c := newCompiled(b, services, openProxy)
		differ := resource.NewDiffer(64)
		eachEdit(b, edits, c.next, func(b *testing.B, e editOf) {
			before, after := c.step(openProxy, e.edit)
			s := newClient(after).connect(b, differ)
			states := numbered{before, after}
			sent := 0
			for b.Loop() {
				sent += converse(s, s.Update(states.next(), resource.Overlay{}, now))
			}
			require.True(b, s.InSync() && sent > 0)
			b.ReportMetric(float64(sent)/float64(b.N), "sent-B/op")
		})
		state := c.state(openProxy)
		change(b, "reconnect", func(b *testing.B) {
			client := newClient(state)
			client.reports(state)
			sent := 0
			for b.Loop() {
				s := session.New(session.Options{Differ: differ})
				sent = client.load(s)
				if !s.InSync() {
					b.Fatal("the session is not in sync")
				}
			}
			b.ReportMetric(float64(sent), "sent-B/op")
		})
		change(b, "firstload", func(b *testing.B) {
			client := newClient(state)
			sent := 0
			for b.Loop() {
				sent = client.load(session.New(session.Options{Differ: differ}))
			}
			b.ReportMetric(float64(sent), "sent-B/op")
		})
	})
}

// now is the time of all steps: nothing here waits.
var now = time.Unix(1000, 0)

// numbered turns two states by turns into generations that go up.
type numbered [2]resource.State

func (n *numbered) next() resource.State {
	n[0], n[1] = n[1], n[0].At(n[1].Generation()+1)
	return n[1]
}

// client asks for all of a state, as an Envoy does that takes route tables whole and endpoints as
// lists.
type client struct {
	state resource.State
	first []session.Request
}

// types are those that it asks for, in its order.
var types = []resource.Type{resource.Cluster, resource.Endpoint, resource.Listener, resource.Route}

func newClient(state resource.State) *client {
	c := &client{state: state}
	for _, t := range types {
		r := session.Request{TypeURL: t.URL()}
		if !t.Wildcard() {
			r.Subscribe = held(state, t).Names()
		}
		c.first = append(c.first, r)
	}
	return c
}

// held is what the client has of a state.
func held(state resource.State, t resource.Type) *resource.Set {
	if t == resource.Route {
		return state.Tables()
	}
	return state.Set(t)
}

// reports makes the client say that it has all of a state.
func (c *client) reports(state resource.State) {
	for i, t := range types {
		c.first[i].InitialVersions = map[string]string{}
		for r := range held(state, t).All() {
			c.first[i].InitialVersions[r.Name()] = resource.Overlay{}.Version(r).String()
		}
	}
}

// load brings a new session to the client's state, and returns the bytes of the resources that it
// was sent.
func (c *client) load(s *session.Session) (sent int) {
	s.Update(c.state, resource.Overlay{}, now)
	for _, r := range c.first {
		sent += converse(s, s.Request(r, now))
	}
	return sent
}

// connect is a session that has brought its client to the state.
func (c *client) connect(tb testing.TB, differ *resource.Differ) *session.Session {
	s := session.New(session.Options{Differ: differ})
	c.load(s)
	require.True(tb, s.InSync())
	return s
}

// converse acknowledges responses, and all that follow; it returns the bytes of their resources.
func converse(s *session.Session, responses []session.Response) (sent int) {
	for len(responses) > 0 {
		r := responses[0]
		for _, u := range r.Upserts {
			sent += u.Size()
		}
		responses = append(responses[1:], s.Request(session.Request{TypeURL: r.Type.URL(), Nonce: r.Nonce}, now)...)
	}
	return sent
}
