package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lateen-mesh/lateen/internal/view"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// FuzzRequests lets a client say anything, in any order, while views change. Whatever it says, the session does not panic,
// names nothing twice in a response and uses no nonce twice.
func FuzzRequests(f *testing.F) {
	f.Add(false, []byte{0, 0, 0, 1, 5, 2, 2, 9, 3, 3})
	f.Add(true, []byte{0, 0, 0, 1, 5, 2, 2, 9, 3, 3})
	f.Add(false, []byte("wildcard, then names, then a refusal"))
	f.Add(true, []byte{0, 4, 8, 12, 16, 20, 3, 7, 11, 15, 1, 5, 9, 13, 255, 254, 253})
	f.Fuzz(func(t *testing.T, sotw bool, script []byte) {
		if len(script) > 1000 {
			t.Skip("long scripts find what short ones find")
		}
		o := session.Options{Differ: view.NewDiffer(4), MaxBytes: 64}
		if sotw {
			o.Protocol = session.StateOfTheWorld
		}
		z := &fuzzer{t: t, in: script, session: session.New(o), resources: newResources(), now: time.Unix(1000, 0), nonces: map[string]string{}}
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
	session    *session.Session
	resources  *resources
	now        time.Time
	nonces     map[string]string // to version
	order      []string
	generation uint64
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
		st := view.NewState(z.generation)
		for t := range st.Sets {
			st.Sets[t] = z.resources.set(z.notes())
		}
		z.check(z.session.Update(st, view.Own{Pod: fmt.Sprint(z.next() % 2)}, z.now))
	case 1:
		z.now = z.now.Add(time.Duration(z.next()) * 100 * time.Millisecond)
		z.check(z.session.Tick(z.now))
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

func (z *fuzzer) request() session.Request {
	t := view.Type(z.next() % int(view.NumTypes))
	req := session.Request{TypeURL: t.URL(), Subscribe: z.names(), Unsubscribe: z.names()}
	req.Names = append(req.Subscribe, req.Unsubscribe...)
	switch b := z.next(); {
	case b < 20:
		req.TypeURL = "type.googleapis.com/acme.v1.Thing"
	case b < 40:
		req.InitialVersions = z.resources.versions([]string{"a:1", "b:?", "none:1"})
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
	}
}
