package session_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/heap"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// TestBytesOfASessionDoNotDependOnTheMesh measures the heap: whatever way a session took to where
// its class is, it then holds as many bytes at 4,000 services as at 10.
func TestBytesOfASessionDoNotDependOnTheMesh(t *testing.T) {
	for name, c := range map[string]struct {
		protocol session.Protocol
		settle   func(*testing.T, *large, *session.Session)
	}{
		"delta":              {session.Delta, fresh},
		"delta, reconnected": {session.Delta, reconnected},
		"delta, stale":       {session.Delta, stale},
		"delta, asked again": {session.Delta, askedAgain},
		"delta, refused":     {session.Delta, refusedAll},
		"sotw":               {session.StateOfTheWorld, fresh},
		"sotw, refused":      {session.StateOfTheWorld, refusedAll},
	} {
		t.Run(name, func(t *testing.T) {
			bytes := map[int]int{}
			for _, services := range []int{10, 4000} {
				bytes[services] = bytesPerSession(t, services, func(l *large, d *resource.Differ) *session.Session {
					s := session.New(session.Options{Protocol: c.protocol, Differ: d})
					s.Update(l.state, resource.Overlay{}, start)
					c.settle(t, l, s)
					require.True(t, s.InSync())
					return s
				})
			}
			t.Logf("%d bytes at 10 services, %d at 4,000", bytes[10], bytes[4000])
			const noise = 256 // a byte for each service would be 4,000
			require.InDelta(t, bytes[10], bytes[4000], noise, "bytes of a session at 10 and at 4,000 services")
		})
	}
}

var start = time.Unix(1000, 0)

// bytesPerSession is the heap that a session keeps, on average over many.
func bytesPerSession(t *testing.T, services int, settle func(*large, *resource.Differ) *session.Session) int {
	t.Helper()
	count := 30
	if services < 1000 {
		count = 200 // cheap, and what else the process allocates meanwhile counts less
	}
	l, d := newLarge(services), resource.NewDiffer(64)
	warm := settle(l, d) // what sessions share is made by the first
	before := heap.InUse().Heap
	sessions := make([]*session.Session, count)
	for i := range sessions {
		sessions[i] = settle(l, d)
	}
	bytes := int(heap.InUse().Heap-before) / count
	runtime.KeepAlive(sessions)
	runtime.KeepAlive(warm)
	runtime.KeepAlive(l)
	return bytes
}

// converse sends a session the first requests of a client, and answers to everything. For types
// that are asked for by name, all names are asked for.
func converse(
	l *large, s *session.Session, first func(*session.Request), answer func(session.Response, *session.Request),
) {
	for _, t := range []resource.Type{resource.Cluster, resource.Endpoint, resource.Listener, resource.Route} {
		req := session.Request{TypeURL: t.URL()}
		if !t.Wildcard() {
			req.Subscribe, req.Names = slices.Clone(l.names()), slices.Clone(l.names())
		}
		first(&req)
		for queue := s.Request(req, start); len(queue) > 0; {
			r := queue[0]
			next := session.Request{TypeURL: r.Type.URL(), Nonce: r.Nonce, VersionInfo: r.Version}
			if !r.Type.Wildcard() {
				next.Names = slices.Clone(l.names())
			}
			answer(r, &next)
			queue = append(queue[1:], s.Request(next, start)...)
		}
	}
}

func asIs(*session.Request) {}

func accept(session.Response, *session.Request) {}

func fresh(_ *testing.T, l *large, s *session.Session) { converse(l, s, asIs, accept) }

// reconnected is a client that states versions of everything, and all are right.
func reconnected(t *testing.T, l *large, s *session.Session) {
	sent := 0
	converse(l, s, func(req *session.Request) {
		req.InitialVersions = maps.Clone(versionsOf(l, req.TypeURL, false))
	}, func(r session.Response, _ *session.Request) {
		sent += len(r.Upserts) + len(r.Removed)
	})
	require.Zero(t, sent, "resources sent")
}

// stale is a client that states another version of everything.
func stale(_ *testing.T, l *large, s *session.Session) {
	converse(l, s, func(req *session.Request) {
		req.InitialVersions = maps.Clone(versionsOf(l, req.TypeURL, true))
	}, accept)
}

// versionsOf are the versions of all resources, or others.
func versionsOf(l *large, typeURL string, wrong bool) map[string]string {
	typ, _ := resource.TypeByURL(typeURL)
	key := fmt.Sprint(typ, wrong)
	if l.versions[key] == nil {
		versions := map[string]string{}
		for r := range l.state.Set(typ).All() {
			versions[r.Name()] = r.Version().String()
			if wrong {
				versions[r.Name()] = resource.New(r.Name(), []byte("old")).Version().String()
			}
		}
		l.versions[key] = versions
	}
	return l.versions[key]
}

// askedAgain is a client that takes its names back, and asks for them a few at a time.
func askedAgain(_ *testing.T, l *large, s *session.Session) {
	fresh(nil, l, s)
	for _, t := range []resource.Type{resource.Endpoint, resource.Route} {
		s.Request(session.Request{TypeURL: t.URL(), Unsubscribe: l.names()}, start)
		for names := range slices.Chunk(l.names(), 7) {
			for _, r := range s.Request(session.Request{TypeURL: t.URL(), Subscribe: names}, start) {
				s.Request(session.Request{TypeURL: t.URL(), Nonce: r.Nonce}, start)
			}
		}
	}
}

// refusedAll is a client that refuses the first response of each type, and then takes the same.
func refusedAll(_ *testing.T, l *large, s *session.Session) {
	refused := map[resource.Type]bool{}
	converse(l, s, asIs, func(r session.Response, answer *session.Request) {
		if !refused[r.Type] {
			refused[r.Type] = true
			answer.Nack = &session.Nack{Message: fmt.Sprint("cannot apply ", r.Type)}
			answer.VersionInfo = ""
		}
	})
}
