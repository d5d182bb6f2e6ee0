package resource

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a response takes of Envoy's main thread grows with the list that it is of, and not with the
// other lists.
func TestEnvoyTimeFollowsTheTable(t *testing.T) {
	st := NewStore()
	hosts := func(table string, n, changed int) (all []*Resource) {
		for i := range n {
			rest := []byte{}
			if i < changed {
				rest = []byte("\x0a\x01x")
			}
			all = append(all, NewVirtualHost(table, fmt.Sprint("h", i), rest, Refs{}))
		}
		return all
	}
	state := func(changed int) State {
		all := append(hosts("80", 1000, changed), hosts("90", 10, 0)...)
		return NewState(1).With(VirtualHost, st.Build(all...))
	}
	d := NewDiffer(4)
	from, to := state(0), state(1)
	change := d.Diff(VirtualHost, from.Set(VirtualHost), to.Set(VirtualHost))
	of := func(shared *Change) time.Duration {
		return to.EnvoyTime(VirtualHost, change.Upserts, change.Removed, shared)
	}
	require.InDelta(t, 12.7, of(nil).Seconds()*1000, 0.1, "as measured, in ms")
	require.Equal(t, of(nil), of(change))
	require.Equal(t, of(nil), of(change), "it is remembered")

	small := hosts("90", 10, 1)[:1]
	require.Less(t, to.EnvoyTime(VirtualHost, small, nil, nil), time.Millisecond)
	require.Less(t, to.EnvoyTime(VirtualHost, nil, []string{"90/h1"}, nil), time.Millisecond)
	require.Equal(t, 4*time.Millisecond, to.EnvoyTime(Cluster, from.Set(VirtualHost).all()[:11], nil, nil).
		Truncate(time.Millisecond))
}

// all returns the resources.
func (s *Set) all() (list []*Resource) {
	for r := range s.All() {
		list = append(list, r)
	}
	return list
}

func TestEnvoyTimeOfEndpointsFollowsTheirNumber(t *testing.T) {
	st := NewStore()
	assignment := func(n, port int) *Resource {
		var members []*Resource
		for i := range n {
			members = append(members, New(fmt.Sprint(i), []byte{byte(port), byte(i >> 8), byte(i)}))
		}
		return NewAssignment("c", nil, []Group{{Members: st.Build(members...)}})
	}
	large, other, none := assignment(1000, 1), assignment(1000, 2), NewState(1)
	list := []*Resource{large}
	require.InDelta(t, 2.4, none.EnvoyTime(Endpoint, list, nil, nil).Seconds()*1000, 0.1)
	d := NewDiffer(4)
	members := d.Members(large, other)
	all := d.Members(nil, large)
	require.InDelta(t, 7.4, none.EnvoyTime(LbEndpoint, all.Upserts, nil, all).Seconds()*1000, 0.1)
	require.Greater(t, none.EnvoyTime(LbEndpoint, members.Upserts, members.Removed, members), time.Millisecond)
}

// An assignment churns once it has changed three times, each time soon after the last, however many
// sessions and places ask for each change.
func TestAssignmentsThatChangeOftenChurn(t *testing.T) {
	st, now := NewStore(), time.Unix(1000, 0)
	d := NewDifferAt(4, func() time.Time { return now })
	at := func(generation int) *Set { return st.Build(New("c", []byte(fmt.Sprint(generation)))) }
	step := func(generation int) {
		d.Advance()
		d.Diff(Endpoint, at(generation-1), at(generation))
		d.Diff(Endpoint, at(generation-2), at(generation)) // a session that is late
		d.Advance()
		d.Diff(Endpoint, at(generation-3), at(generation)) // and one that is later
	}
	for i, churns := range []bool{false, false, true, true} {
		step(10 + i)
		require.Equal(t, churns, d.Churns("c"), "change %d", i)
		now = now.Add(churnPause)
	}
	require.False(t, d.Churns("other"))
	now = now.Add(time.Second)
	require.False(t, d.Churns("c"), "it has been quiet")
	step(20)
	require.False(t, d.Churns("c"))
	d.Diff(Endpoint, Empty(), at(20))
	d.Diff(Endpoint, at(20), Empty())
	require.False(t, d.Churns("c"))
}

func TestWhatChurnsIsForgottenInTheEnd(t *testing.T) {
	c, now := churn{}, time.Unix(1000, 0)
	for i := range maxChurning {
		c.noteAll([]*Resource{New(fmt.Sprint(i), nil)}, now)
	}
	c.noteAll([]*Resource{New("more", nil)}, now)
	require.Len(t, c.recent, maxChurning)
	now = now.Add(churnPause + time.Second)
	c.noteAll([]*Resource{New("new", nil)}, now)
	require.Len(t, c.recent, 1)
}
