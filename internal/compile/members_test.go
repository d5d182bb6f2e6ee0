package compile

import (
	"maps"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// memberSteps are the steps that clients take which have endpoints as collections: from what a
// proxy had to what it has now, of each assignment whose head stays the same.
type memberSteps struct {
	differ *resource.Differ
	had    map[*Member]resource.State
	seen   map[[2]*resource.Resource]bool
}

func newMemberSteps() memberSteps {
	return memberSteps{
		differ: resource.NewDiffer(64),
		had:    map[*Member]resource.State{},
		seen:   map[[2]*resource.Resource]bool{},
	}
}

// compare requires that each step comes to what the members are from nothing.
func (s *memberSteps) compare(t *rapid.T, m *Member, is resource.State) {
	had := s.had[m]
	s.had[m] = is
	if had.IsNone() || had == is {
		return
	}
	for r := range is.Set(resource.Endpoint).All() {
		old := had.Set(resource.Endpoint).Get(r.Name())
		if old == r || s.seen[[2]*resource.Resource{old, r}] || r.Collections() == nil {
			continue
		}
		s.seen[[2]*resource.Resource{old, r}] = true
		requireSeals(t, r)
		if old == nil || old.Collections() == nil || !old.Collections().SameHead(r.Collections()) {
			old = nil // a client would get the list, or all members
		}
		has := membersOf(old)
		change := s.differ.Members(old, r)
		for _, u := range change.Upserts {
			has[u.Name()] = u.Version()
		}
		for _, name := range change.Removed {
			require.Contains(t, has, name)
			delete(has, name)
		}
		if want := membersOf(r); !maps.Equal(want, has) {
			t.Fatalf("members of %s: want %v, got %v", r.Name(), want, has)
		}
	}
}

// membersOf are the versions of all members by name, as who has none of them gets them.
func membersOf(r *resource.Resource) map[string]resource.Version {
	versions := map[string]resource.Version{}
	if r == nil {
		return versions
	}
	for _, m := range resource.NewDiffer(1).Members(nil, r).Upserts {
		versions[m.Name()] = m.Version()
	}
	return versions
}

// requireSeals requires that a head says how many members there are, and sealed, which.
func requireSeals(t *rapid.T, r *resource.Resource) {
	c := r.Collections()
	require.Len(t, c.Names(), len(r.Groups()))
	members := membersOf(r)
	require.Len(t, members, c.Len())
	for i, name := range c.Names() {
		require.True(t, c.Has(name))
		requireCollection(t, members, strings.TrimSuffix(name, "*"), r.Groups()[i])
	}
	list, sealed := c.Sealed.Version().ListVersion()
	require.True(t, sealed)
	require.Equal(t, r.Version(), list)
	_, sealed = c.Open.Version().ListVersion()
	require.False(t, sealed)
}

// requireCollection requires that the members whose names begin with that of a collection are its
// group's endpoints.
func requireCollection(t *rapid.T, members map[string]resource.Version, collection string, g resource.Group) {
	var want, got []string
	for m := range g.Members.All() {
		want = append(want, m.Version().String())
	}
	for name, v := range members {
		if strings.HasPrefix(name, collection) {
			got = append(got, v.String())
		}
	}
	require.ElementsMatch(t, want, got)
}
