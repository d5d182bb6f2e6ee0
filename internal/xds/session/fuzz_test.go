package session_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// FuzzRequests lets a client say anything, in any order, while views change. Whatever it says, the
// session does not panic, names nothing twice in a response (P9) and uses no nonce twice; it sends
// nothing of a type or a name that the client never asked for (but the endpoints of a cluster),
// removes only what the client may have, and an answer for an unknown type is empty (P21).
func FuzzRequests(f *testing.F) {
	f.Add(false, []byte{0, 0, 0, 1, 5, 2, 2, 9, 3, 3})
	f.Add(true, []byte{0, 0, 0, 1, 5, 2, 2, 9, 3, 3})
	f.Add(false, []byte("wildcard, then names, then a refusal"))
	f.Add(true, []byte{0, 4, 8, 12, 16, 20, 3, 7, 11, 15, 1, 5, 9, 13, 255, 254, 253})
	f.Add(false, []byte{0, 31, 1, 2, 2, 1, 0, 25, 0, 47, 1, 3, 0, 8, 0, 250, 2, 0, 0, 0, 45, 1, 200, 3, 1, 16, 0, 30})
	f.Add(true, []byte{0, 31, 1, 2, 2, 1, 0, 25, 0, 47, 1, 3, 0, 8, 0, 250, 2, 0, 0, 0, 45, 1, 200, 3, 1, 16, 0, 30})
	f.Fuzz(func(t *testing.T, sotw bool, script []byte) {
		if len(script) > 1000 {
			t.Skip("long scripts find what short ones find")
		}
		o := session.Options{Differ: resource.NewDiffer(4), MaxBytes: 64}
		if sotw {
			o.Protocol = session.StateOfTheWorld
		}
		o.VirtualHosts = len(script)%2 == 1
		z := &fuzzer{
			t: t, in: script, sotw: sotw, session: session.New(o), resources: newResources(), now: time.Unix(1000, 0),
			nonces: map[string]string{}, unknown: map[string]bool{},
		}
		for len(z.in) > 0 {
			z.step()
		}
		z.session.Status()
		z.session.Distrusted()
		z.session.NextTick()
	})
}

type fuzzer struct {
	t          *testing.T
	in         []byte
	sotw       bool
	session    *session.Session
	resources  *resources
	now        time.Time
	nonces     map[string]string // to version
	order      []string
	generation uint64
	// said is what the client ever said of a type; unknown are the types that nobody serves.
	said    [resource.NumTypes]interest
	unknown map[string]bool
}

// interest is all that a client ever asked for of a type, and may have of it.
type interest struct {
	asked, wildcard bool
	names, mayHave  map[string]bool
	sent            map[string]bool
}

func (i *interest) note(names []string) {
	if i.names == nil {
		i.names, i.mayHave, i.sent = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
	for _, n := range names {
		i.names[n], i.mayHave[n] = true, true
		i.wildcard = i.wildcard || n == "*"
	}
}

// heard keeps what a request asks for.
func (z *fuzzer) heard(t resource.Type, req session.Request) {
	if req.TypeURL != t.URL() {
		z.unknown[req.TypeURL] = true
		return
	}
	i, names := &z.said[t], req.Subscribe
	if z.sotw {
		names = req.Names
	}
	i.note(names)
	i.wildcard = i.wildcard || !i.asked && len(names) == 0
	i.asked = true
	for _, list := range [][]string{req.Unsubscribe, slices.Collect(maps.Keys(req.InitialVersions))} {
		for _, n := range list {
			i.mayHave[n] = true
		}
	}
}

func (z *fuzzer) next() int {
	if len(z.in) == 0 {
		return 0
	}
	b := z.in[0]
	z.in = z.in[1:]
	return int(b)
}

func (z *fuzzer) step() {
	switch z.next() % 4 {
	case 0:
		z.generation++
		st := resource.NewState(z.generation)
		for t := range resource.NumTypes {
			notes := z.notes()
			if t == resource.VirtualHost {
				notes = z.hosts(notes)
			}
			st = st.With(t, z.resources.set(notes))
		}
		z.check(z.session.Update(st, resource.Overlay{Pod: fmt.Sprint(z.next() % 2)}, z.now))
	case 1:
		z.now = z.now.Add(time.Duration(z.next()) * 100 * time.Millisecond)
		z.check(z.session.Tick(z.now))
		if at, waits := z.session.NextTick(); waits && !at.After(z.now) {
			z.t.Fatalf("a tick at %s wants the next at %s", z.now, at)
		}
	default:
		z.check(z.session.Request(z.request(), z.now))
	}
}

func (z *fuzzer) notes() []string {
	var out []string
	bits := z.next()
	for i, name := range []string{"a", "b", "c", "d"} {
		if bits&(1<<i) != 0 {
			out = append(out, fmt.Sprintf("%s:%d>%s", name, bits>>4&3, "abcd"[bits>>5&3:][:1]))
		}
	}
	if bits > 200 {
		out = append(out, "own:1!")
	}
	if bits > 100 {
		out = append(out, fmt.Sprintf("t:%d[x:%d>%s;y:%d]", bits&1, bits&3, "abcd"[bits>>1&3:][:1], bits>>1&3))
	}
	return out
}

// hosts makes virtual hosts of a table of notes.
func (z *fuzzer) hosts(notes []string) (hosts []string) {
	for _, n := range notes {
		if !strings.ContainsAny(n, "[!") {
			hosts = append(hosts, "abt"[z.next()%3:][:1]+"/"+n)
		}
	}
	return hosts
}

func (z *fuzzer) names() []string {
	var out []string
	bits := z.next()
	for i, name := range []string{"a", "b", "c", "d", "t", "none", "*", ""} {
		if bits&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

func (z *fuzzer) request() (req session.Request) {
	t := resource.Type(z.next() % int(resource.NumTypes))
	req = session.Request{TypeURL: t.URL(), Subscribe: z.names(), Unsubscribe: z.names()}
	req.Names = append(slices.Clone(req.Subscribe), req.Unsubscribe...)
	defer func() { z.heard(t, req) }()
	switch b := z.next(); {
	case b < 20:
		req.TypeURL = "type.googleapis.com/acme.v1.Thing"
	case b > 245:
		req.Nonce, req.VersionInfo = "never-sent", "none"
	case b < 40:
		req.InitialVersions = z.resources.versions([]string{"a:1", "b:?", "none:1", "a/b:1", "t/none:1"})
	case len(z.order) > 0:
		req.Nonce = z.order[b%len(z.order)]
		req.VersionInfo = z.nonces[req.Nonce]
		if b > 150 {
			req.Nack = &session.Nack{Message: "Error adding/updating cluster(s) a: no"}
		}
		if b > 200 {
			req.Nack = &session.Nack{Message: "b is bad"}
		}
	}
	return req
}

func (z *fuzzer) check(responses []session.Response) {
	for _, r := range responses {
		if _, twice := z.nonces[r.Nonce]; twice {
			z.t.Fatalf("nonce %s twice", r.Nonce)
		}
		z.nonces[r.Nonce] = r.Version
		z.order = append(z.order, r.Nonce)
		names := map[string]bool{}
		for _, name := range append(namesOf(r.Upserts), r.Removed...) {
			if names[name] {
				z.t.Fatalf("%s twice in %s", name, r.Nonce)
			}
			names[name] = true
		}
		z.checkAsked(r)
	}
}

// checkAsked requires that a response is for what the client asked for.
func (z *fuzzer) checkAsked(r session.Response) {
	if r.Unknown != "" {
		require.True(z.t, z.unknown[r.Unknown])
		require.Empty(z.t, r.Upserts)
		require.Empty(z.t, r.Removed)
		return
	}
	i := &z.said[r.Type]
	require.True(z.t, i.asked, "%s was never asked for", r.Type)
	for _, name := range namesOf(r.Upserts) {
		// P10: endpoints go out with their cluster, unasked.
		behind := r.Type == resource.Endpoint && z.said[resource.Cluster].sent[name]
		require.True(z.t, i.wildcard || i.names[name] || behind, "%s %s was never asked for", r.Type, name)
		i.mayHave[name], i.sent[name] = true, true
	}
	if z.sotw {
		require.Empty(z.t, r.Removed)
	}
	for _, name := range r.Removed {
		if r.Type == resource.VirtualHost {
			continue // such a removal lets a table open that has none (1.6), or does no harm
		}
		require.True(z.t, i.mayHave[name], "%s %s: the client never had it", r.Type, name)
	}
}
