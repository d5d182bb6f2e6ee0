package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// large is a state of many services: clusters with endpoints, and one table of routes per listener.
type large struct {
	store *resource.Store
	state resource.State
	known []string
	// versions are those that a client may state, by type and whether they are right.
	versions map[string]map[string]string
}

// names are those of the resources, the same for each type.
func (l *large) names() []string {
	if l.known == nil {
		l.known = l.state.Set(resource.Cluster).Names()
	}
	return l.known
}

func newLarge(services int) *large {
	l := &large{store: resource.NewStore(), state: resource.NewState(1), versions: map[string]map[string]string{}}
	edits := make([]resource.Edit, services)
	for i := range edits {
		name := serviceName(i)
		edits[i] = resource.Edit{Name: name, Resource: resource.New(name, []byte(name))}
	}
	for _, t := range []resource.Type{resource.Cluster, resource.Endpoint, resource.Listener, resource.Route} {
		l.state = l.state.With(t, l.store.Apply(resource.Empty(), edits))
	}
	return l
}

func serviceName(i int) string {
	return fmt.Sprintf("outbound|80||svc-%d.default.svc.cluster.local", i)
}

// next is the state after one service got other endpoints.
func (l *large) next(i int) resource.State {
	s := l.state.At(l.state.Generation() + 1)
	r := resource.New(serviceName(i), fmt.Appendf(nil, "endpoints at %d", s.Generation()))
	l.state = s.With(resource.Endpoint, l.store.Apply(
		s.Set(resource.Endpoint), []resource.Edit{{Name: r.Name(), Resource: r}},
	))
	return l.state
}

// connect brings a session to the state of a client that has everything.
func (l *large) connect(tb testing.TB, o session.Options) *session.Session {
	tb.Helper()
	s := session.New(o)
	now := time.Unix(1000, 0)
	s.Update(l.state, resource.Overlay{}, now)
	for _, t := range []resource.Type{resource.Cluster, resource.Endpoint, resource.Listener, resource.Route} {
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

// TestSettledSessionKeepsNoNames is the memory rule: a session that is where its class is keeps
// nothing per service.
func TestSettledSessionKeepsNoNames(t *testing.T) {
	for _, p := range []session.Protocol{session.Delta, session.StateOfTheWorld} {
		for _, services := range []int{10, 4000} {
			l := newLarge(services)
			s := l.connect(t, session.Options{Protocol: p, Differ: resource.NewDiffer(16)})
			require.Zero(t, s.Exceptions())
			require.Equal(t, services, s.Status()[resource.Endpoint].Resources)
		}
	}
}

// TestSettledSessionsShareAStep: what changed for the class is computed once, and is what every
// session sends.
func TestSettledSessionsShareAStep(t *testing.T) {
	l := newLarge(4000)
	differ := resource.NewDiffer(16)
	a := l.connect(t, session.Options{Differ: differ})
	b := l.connect(t, session.Options{Differ: differ})
	state := l.next(7)
	x := a.Update(state, resource.Overlay{}, time.Unix(1001, 0))
	y := b.Update(state, resource.Overlay{}, time.Unix(1001, 0))
	require.Len(t, x, 1)
	require.Len(t, y, 1)
	require.NotNil(t, x[0].Shared)
	require.Same(t, x[0].Shared, y[0].Shared)
	require.Equal(t, []string{serviceName(7)}, namesOf(x[0].Upserts))
	require.Zero(t, a.Exceptions())
}

// TestListsBesideCollectionsShareOneFrame: where the endpoints of large clusters go as collections,
// those of the others are one frame for all sessions that make the step, from the first response
// on; and so are the members.
func TestListsBesideCollectionsShareOneFrame(t *testing.T) {
	store, differ := resource.NewStore(), resource.NewDiffer(16)
	assignment := func(name string, endpoints int) *resource.Resource {
		var members []*resource.Resource
		for i := range endpoints {
			members = append(members, resource.New(fmt.Sprint("e", i), fmt.Appendf(nil, "%s endpoint %d", name, i)))
		}
		return resource.NewAssignment(
			name, []byte(name), []resource.Group{{Head: []byte("locality"), Members: store.Build(members...)}},
		)
	}
	state := resource.NewState(1)
	state = state.With(
		resource.Endpoint,
		store.Build(assignment("a", 1), assignment("b", 2), assignment("large", 3), assignment("z", 1)),
	)
	now := time.Unix(1000, 0)
	var changes [][]*resource.Change
	for range 3 {
		s := session.New(session.Options{Differ: differ, Collections: 3})
		s.Update(state, resource.Overlay{}, now)
		responses := s.Request(
			session.Request{TypeURL: resource.Endpoint.URL(), Subscribe: []string{"a", "b", "large", "z"}}, now,
		)
		require.Len(t, responses, 2)
		require.Equal(t, []string{"a", "b", "z"}, namesOf(responses[0].Upserts))
		require.Equal(t, []string{"large"}, namesOf(responses[1].Upserts))
		asked := state.Set(resource.Endpoint).Get("large").Collections().Names()
		members := s.Request(session.Request{TypeURL: resource.LbEndpoint.URL(), Subscribe: asked}, now)
		require.Len(t, members, 1)
		changes = append(changes, []*resource.Change{responses[0].Shared, members[0].Shared})
	}
	encodings := 0
	for _, c := range changes {
		for i, change := range c {
			require.NotNil(t, change)
			require.Same(t, changes[0][i], change)
			change.Frame(func(*resource.Change) []byte { encodings++; return nil })
		}
	}
	require.Equal(t, 2, encodings)
}
