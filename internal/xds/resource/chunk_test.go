package resource

import (
	"bytes"
	"fmt"
	"maps"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// assignmentOf has an endpoint for each number.
func assignmentOf(st *Store, endpoints map[int]int) *Resource {
	var members []*Resource
	for n, content := range endpoints {
		members = append(members, New(fmt.Sprint("e", n), fmt.Appendf(nil, "endpoint %d: %d", n, content)))
	}
	return NewAssignment("c", []byte("c"), []Group{{Head: []byte("zone"), Members: st.Build(members...)}})
}

func encodedNames(list []*Resource) []byte {
	var b bytes.Buffer
	for _, r := range list {
		fmt.Fprintln(&b, r.Name(), r.Version(), string(r.Body()))
	}
	return b.Bytes()
}

// Who gets all members has what those have who got each step, and the parts in which they are
// encoded are all of them.
func TestAllMembersAreThoseOfEachStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st, d := NewStore(), NewDiffer(16)
		endpoints := map[int]int{}
		draw := func() *Resource {
			drawn := rapid.MapOfN(rapid.IntRange(0, 400), rapid.IntRange(0, 2), 1, 300)
			for n, content := range drawn.Draw(t, "endpoints") {
				if endpoints[n] = content; content == 0 && len(endpoints) > 1 {
					delete(endpoints, n)
				}
			}
			return assignmentOf(st, endpoints)
		}
		at := draw()
		stepwise := map[string]Version{}
		for _, r := range d.Members(nil, at).Upserts {
			stepwise[r.Name()] = r.Version()
		}
		for range rapid.IntRange(1, 3).Draw(t, "steps") {
			next := draw()
			if next.Version() == at.Version() {
				continue
			}
			step := d.Members(at, next)
			for _, r := range step.Upserts {
				stepwise[r.Name()] = r.Version()
			}
			for _, name := range step.Removed {
				delete(stepwise, name)
			}
			at = next
		}
		all := d.Members(nil, at)
		whole := map[string]Version{}
		for _, r := range all.Upserts {
			whole[r.Name()] = r.Version()
		}
		if !maps.Equal(whole, stepwise) || len(whole) != len(all.Upserts) || len(all.Removed) > 0 {
			t.Fatalf("%d members, %d by steps", len(all.Upserts), len(stepwise))
		}
		require.Equal(t, string(encodedNames(all.Upserts)), string(bytes.Join(all.Chunks(encodedNames), nil)))
	})
}

// What a generation changed is encoded anew for those who come in it, with its neighbours; the rest
// goes on.
func TestMembersAreEncodedOnceForAllGenerations(t *testing.T) {
	const size = 10_000
	st, d, endpoints := NewStore(), NewDiffer(16), map[int]int{}
	for n := range size {
		endpoints[n] = 1
	}
	encoded := 0
	encode := func(list []*Resource) []byte {
		encoded += len(list)
		return encodedNames(list)
	}
	at := assignmentOf(st, endpoints)
	parts := d.Members(nil, at).Chunks(encode)
	require.Equal(t, size, encoded)
	require.Less(t, len(parts), size/16)

	encoded = 0
	require.Len(t, d.Members(nil, at).Chunks(encode), len(parts))
	require.Zero(t, encoded)
	endpoints[7], endpoints[8] = 2, 2
	d.Members(nil, assignmentOf(st, endpoints)).Chunks(encode)
	runtime.KeepAlive(at) // as by the sessions that have it
	require.Positive(t, encoded)
	require.LessOrEqual(t, encoded, 2*maxChunkMembers)
}

func TestDifferForgetsWhatNobodyMakes(t *testing.T) {
	st, d := NewStore(), NewDiffer(16)
	set := func(body string) *Set { return st.Build(New("a", []byte(body))) }
	one, two, three := set("1"), set("2"), set("3")
	used, unused := d.Diff(Cluster, one, two), d.Diff(Cluster, two, three)
	for range 2 * generationsPerTurn {
		d.Advance()
		require.Same(t, used, d.Diff(Cluster, one, two))
	}
	require.NotSame(t, unused, d.Diff(Cluster, two, three))
	for i := range 100 {
		d.Diff(Cluster, one, set(fmt.Sprint("of many ", i)))
		require.LessOrEqual(t, len(d.recent)+len(d.previous), 16)
	}
	require.NotSame(t, used, d.Diff(Cluster, one, two))
}
