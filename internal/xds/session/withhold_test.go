package session_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// TestWithholdingKeepsWhatWorked is the promise of withholding to a user, whatever a client refuses
// among its clusters: what has worked and can go on working does, and everything else is as its
// class has it.
func TestWithholdingKeepsWhatWorked(t *testing.T) {
	for name, p := range map[string]session.Protocol{"delta": session.Delta, "sotw": session.StateOfTheWorld} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := newPickyClient(t, p)
				for range rapid.IntRange(2, 20).Draw(t, "steps") {
					before := c.uses()
					c.update()
					c.verify(before)
				}
			})
		})
	}
}

// pickyClient is a client that answers at once, and refuses clusters with an X.
type pickyClient struct {
	t          *rapid.T
	session    *session.Session
	sotw       bool
	now        time.Time
	resources  *resources
	generation uint64
	want       map[string]string // what the class has: note by "type name"; a table's by its virtual hosts
	has        map[string]string // what the client has
}

func newPickyClient(t *rapid.T, p session.Protocol) *pickyClient {
	c := &pickyClient{
		t: t, sotw: p == session.StateOfTheWorld, now: time.Unix(1000, 0),
		resources: newResources(), has: map[string]string{},
		session: session.New(session.Options{Protocol: p, Differ: resource.NewDiffer(8)}),
	}
	c.update()
	c.take(c.session.Request(session.Request{TypeURL: resource.Cluster.URL()}, c.now))
	c.take(c.session.Request(session.Request{TypeURL: resource.Listener.URL()}, c.now))
	c.take(c.session.Request(
		session.Request{TypeURL: resource.Route.URL(), Subscribe: []string{"r"}, Names: []string{"r"}}, c.now,
	))
	return c
}

// update makes a new state and brings the client there.
func (c *pickyClient) update() {
	c.generation++
	st := resource.NewState(c.generation)
	c.want = map[string]string{}
	clusters := c.notes("cds", "a", "b", "c", "d")
	st = st.With(resource.Cluster, c.resources.set(clusters))
	st = st.With(resource.Listener, c.resources.set(c.notes("lds", "l", "m")))
	if vhosts := c.notes("rds", "x", "y", "z"); len(vhosts) > 0 {
		st = st.With(resource.Route, c.resources.set([]string{"r:1[" + strings.Join(vhosts, ";") + "]"}))
	}
	c.t.Logf("update %v", slices.Sorted(maps.Values(c.want)))
	c.take(c.session.Update(st, resource.Overlay{}, c.now))
	for at, waits := c.session.NextTick(); waits; at, waits = c.session.NextTick() {
		c.now = at
		c.take(c.session.Tick(c.now))
	}
}

// notes draws which resources there are, and what of.
func (c *pickyClient) notes(typ string, names ...string) []string {
	var out []string
	for _, name := range names {
		if rapid.IntRange(0, 3).Draw(c.t, "without") == 0 {
			continue
		}
		note := fmt.Sprintf("%s:%d", name, rapid.IntRange(1, 3).Draw(c.t, "version"))
		switch {
		case typ != "cds":
			note += ">" + strings.Join(
				rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 2, rapid.ID).
					Draw(c.t, "to"),
				"+",
			)
		case rapid.IntRange(0, 2).Draw(c.t, "bad") == 0:
			note += "X"
		}
		c.want[typ+" "+name] = note
		out = append(out, note)
	}
	return out
}

// take answers responses until there are none.
func (c *pickyClient) take(responses []session.Response) {
	for len(responses) > 0 {
		r := responses[0]
		c.t.Logf("< %s %s %v -%v", r.Type, r.Nonce, notesOf(r.Upserts), r.Removed)
		req := session.Request{TypeURL: r.Type.URL(), Nonce: r.Nonce, VersionInfo: r.Version}
		if r.Type == resource.Route {
			req.Names = []string{"r"}
		}
		if bad := c.apply(r); len(bad) > 0 {
			req.VersionInfo = "" // that of the response before, which this client does not keep
			req.Nack = &session.Nack{
				Message: "Error adding/updating cluster(s) " + strings.Join(bad, ": no, ") + ": no",
			}
		}
		responses = append(responses[1:], c.session.Request(req, c.now)...)
	}
}

// apply takes what is good of a response and returns the names of what is not.
func (c *pickyClient) apply(r session.Response) (bad []string) {
	typ := r.Type.String() + " "
	if r.Type == resource.Route || c.sotw && r.Type.Wildcard() {
		maps.DeleteFunc(c.has, func(key, _ string) bool {
			_, name, _ := strings.Cut(key, " ")
			return strings.HasPrefix(key, typ) && !slices.Contains(namesOf(r.Upserts), name)
		})
	}
	for _, name := range r.Removed {
		delete(c.has, typ+name)
	}
	for _, u := range r.Upserts {
		note := noteOf(u)
		switch {
		case r.Type == resource.Route:
			list := strings.TrimSuffix(strings.TrimPrefix(note, "r:1["), "]")
			for _, v := range split(strings.ReplaceAll(list, ";", ",")) {
				name, _, _ := strings.Cut(v, ":")
				if name != "r" {
					c.has[typ+name] = v
				}
			}
		case strings.Contains(note, "X"):
			bad = append(bad, u.Name())
		default:
			c.has[typ+u.Name()] = note
		}
	}
	return bad
}

// uses are the listeners and virtual hosts that the client has.
func (c *pickyClient) uses() map[string]string {
	uses := maps.Clone(c.has)
	maps.DeleteFunc(uses, func(key, _ string) bool { return strings.HasPrefix(key, "cds ") })
	return uses
}

// works reports whether all that something leads to is there and stays there.
func (c *pickyClient) works(note string) bool {
	for _, to := range strings.Split(target(note), "+") {
		if to != "" && (c.want["cds "+to] == "" || c.has["cds "+to] == "") {
			return false
		}
	}
	return true
}

// lacks reports whether something leads to what the client refused without having anything older.
func (c *pickyClient) lacks(note string) bool {
	for _, to := range strings.Split(target(note), "+") {
		if strings.Contains(c.want["cds "+to], "X") && c.has["cds "+to] == "" {
			return true
		}
	}
	return false
}

func (c *pickyClient) verify(before map[string]string) {
	for key, want := range c.want {
		if strings.HasPrefix(key, "cds ") {
			continue
		}
		switch has := c.has[key]; {
		case !c.lacks(want):
			require.Equal(c.t, want, has, "%s is as its class has it", key)
		case before[key] != "" && c.works(before[key]):
			require.Equal(c.t, before[key], has, "%s goes on working", key)
		default:
			require.Equal(c.t, want, has, "%s: there is nothing better", key)
		}
	}
	for key, has := range c.has {
		require.NotEmpty(c.t, c.want[key], "%s is no more, and the client has %q", key, has)
	}
}

func target(note string) string {
	_, after, _ := strings.Cut(note, ">")
	return after
}
