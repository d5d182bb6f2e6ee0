package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/view"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// large is a state of many services: clusters with endpoints, and one table of routes per listener.
type large struct {
	store *view.Store
	state view.State
	known []string
	// versions are those that a client may state, by type and whether they are right.
	versions map[string]map[string]string
}

// names are those of the resources, the same for each type.
func (l *large) names() []string {
	if l.known == nil {
		l.known = l.state.Set(view.Cluster).Names()
	}
	return l.known
}

func newLarge(services int) *large {
	l := &large{store: view.NewStore(), state: view.NewState(1), versions: map[string]map[string]string{}}
	edits := make([]view.Edit, services)
	for i := range edits {
		name := serviceName(i)
		edits[i] = view.Edit{Name: name, Resource: view.New(name, []byte(name))}
	}
	for _, t := range []view.Type{view.Cluster, view.Endpoint, view.Listener, view.Route} {
		l.state = l.state.With(t, l.store.Apply(view.Empty(), edits))
	}
	return l
}

func serviceName(i int) string {
	return fmt.Sprintf("outbound|80||svc-%d.default.svc.cluster.local", i)
}

// next is the state after one service got other endpoints.
func (l *large) next(i int) view.State {
	s := l.state.At(l.state.Generation() + 1)
	r := view.New(serviceName(i), fmt.Appendf(nil, "endpoints at %d", s.Generation()))
	l.state = s.With(view.Endpoint, l.store.Apply(s.Set(view.Endpoint), []view.Edit{{Name: r.Name(), Resource: r}}))
	return l.state
}

// connect brings a session to the state of a client that has everything.
func (l *large) connect(tb testing.TB, o session.Options) *session.Session {
	tb.Helper()
	s := session.New(o)
	now := time.Unix(1000, 0)
	s.Update(l.state, view.Overlay{}, now)
	for _, t := range []view.Type{view.Cluster, view.Endpoint, view.Listener, view.Route} {
		req := session.Request{TypeURL: t.URL()}
		if !t.Wildcard() {
			req.Subscribe = l.state.Set(t).Names()
			req.Names = req.Subscribe
		}
		for queue := s.Request(req, now); len(queue) > 0; {
			r := queue[0]
			queue = queue[1:]
			queue = append(queue, s.Request(session.Request{
				TypeURL: r.Type.URL(), Nonce: r.Nonce, VersionInfo: r.Version, Names: req.Names,
			}, now)...)
		}
	}
	require.True(tb, s.InSync())
	return s
}

// TestSettledSessionKeepsNoNames is the memory rule: a session that is where its class is keeps nothing per service.
func TestSettledSessionKeepsNoNames(t *testing.T) {
	for _, p := range []session.Protocol{session.Delta, session.StateOfTheWorld} {
		for _, services := range []int{10, 4000} {
			l := newLarge(services)
			s := l.connect(t, session.Options{Protocol: p, Differ: view.NewDiffer(16)})
			require.Zero(t, s.Exceptions())
			require.Equal(t, services, s.Status()[view.Endpoint].Resources)
		}
	}
}

// TestSettledSessionsShareAStep: what changed for the class is computed once, and is what every session sends.
func TestSettledSessionsShareAStep(t *testing.T) {
	l := newLarge(4000)
	differ := view.NewDiffer(16)
	a := l.connect(t, session.Options{Differ: differ})
	b := l.connect(t, session.Options{Differ: differ})
	state := l.next(7)
	x, y := a.Update(state, view.Overlay{}, time.Unix(1001, 0)), b.Update(state, view.Overlay{}, time.Unix(1001, 0))
	require.Len(t, x, 1)
	require.Len(t, y, 1)
	require.NotNil(t, x[0].Shared)
	require.Same(t, x[0].Shared, y[0].Shared)
	require.Equal(t, []string{serviceName(7)}, namesOf(x[0].Upserts))
	require.Zero(t, a.Exceptions())
}

// TestWhatGoesBesideCollectionsIsShared: where the endpoints of large clusters go as collections, those of the others are one frame for all
// sessions that make the step, from the first response on; and so are the members.
func TestWhatGoesBesideCollectionsIsShared(t *testing.T) {
	store, differ := view.NewStore(), view.NewDiffer(16)
	assignment := func(name string, endpoints int) *view.Resource {
		var members []*view.Resource
		for i := range endpoints {
			members = append(members, view.New(fmt.Sprint("e", i), fmt.Appendf(nil, "%s endpoint %d", name, i)))
		}
		return view.NewAssignment(name, []byte(name), []view.Group{{Head: []byte("locality"), Members: store.Build(members...)}})
	}
	state := view.NewState(1)
	state = state.With(view.Endpoint, store.Build(assignment("a", 1), assignment("b", 2), assignment("large", 3), assignment("z", 1)))
	now := time.Unix(1000, 0)
	var changes [][]*view.Change
	for range 3 {
		s := session.New(session.Options{Differ: differ, Collections: 3})
		s.Update(state, view.Overlay{}, now)
		responses := s.Request(session.Request{TypeURL: view.Endpoint.URL(), Subscribe: []string{"a", "b", "large", "z"}}, now)
		require.Len(t, responses, 2)
		require.Equal(t, []string{"a", "b", "z"}, namesOf(responses[0].Upserts))
		require.Equal(t, []string{"large"}, namesOf(responses[1].Upserts))
		asked := state.Set(view.Endpoint).Get("large").Collections().Names()
		members := s.Request(session.Request{TypeURL: view.LbEndpoint.URL(), Subscribe: asked}, now)
		require.Len(t, members, 1)
		changes = append(changes, []*view.Change{responses[0].Shared, members[0].Shared})
	}
	encodings := 0
	for _, c := range changes {
		for i, change := range c {
			require.NotNil(t, change)
			require.Same(t, changes[0][i], change)
			change.Frame(func(*view.Change) []byte { encodings++; return nil })
		}
	}
	require.Equal(t, 2, encodings)
}
