package session

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// TestSubscriptionEqualsASetOfNames compares a subscription with a plain set of names, while sets
// come and go.
func TestSubscriptionEqualsASetOfNames(t *testing.T) {
	store, differ := resource.NewStore(), resource.NewDiffer(4)
	rapid.Check(t, func(t *rapid.T) {
		s := subscription{base: resource.Empty()}
		want := map[string]bool{}
		name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 12).Draw(t, "n")) })
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				n := name.Draw(t, "add")
				require.Equal(t, !want[n], s.add(n))
				want[n] = true
			case 1:
				n := name.Draw(t, "remove")
				require.Equal(t, want[n], s.remove(n))
				delete(want, n)
			case 2:
				var set []*resource.Resource
				for _, n := range rapid.SliceOfDistinct(name, rapid.ID).Draw(t, "set") {
					set = append(set, resource.New(n, []byte(n)))
				}
				s.compact(differ, resource.Route, store.Build(set...))
			}
			var got []string
			s.each(func(n string) { got = append(got, n) })
			require.Len(t, got, len(want), "no name twice")
			for n := range want {
				require.True(t, s.has(n))
				require.Contains(t, got, n)
			}
			require.False(t, s.has("other"))
		}
	})
}

// TestSettledSubscriptionKeepsNoNames is the memory rule: who wants what its class has costs
// nothing, at any size.
func TestSettledSubscriptionKeepsNoNames(t *testing.T) {
	store, differ := resource.NewStore(), resource.NewDiffer(4)
	for _, size := range []int{10, 4000} {
		var list []*resource.Resource
		for i := range size + 1 {
			n := fmt.Sprint(i)
			list = append(list, resource.New(n, []byte(n)))
		}
		before, after := store.Build(list[:size]...), store.Build(list[1:]...)
		s := subscription{base: resource.Empty()}
		for _, r := range list[:size] {
			s.add(r.Name())
		}
		s.compact(differ, resource.Endpoint, before)
		require.Zero(t, s.exceptions())
		s.compact(differ, resource.Endpoint, after)
		require.Equal(t, 2, s.exceptions(), "one name is new, one is gone")
		require.True(t, s.add(list[size].Name()))
		require.True(t, s.remove(list[0].Name()))
		require.Zero(t, s.exceptions())
	}
}

func TestDigestIgnoresTheOrderOfNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-c][1-4]`)
		a := rapid.SliceOfDistinct(name, rapid.ID).Draw(t, "a")
		b := rapid.SliceOfDistinct(name, rapid.ID).Draw(t, "b")
		slices.Sort(a)
		sorted := slices.Sorted(slices.Values(b))
		require.Equal(t, digestOf(sorted), digestOf(b))
		require.Equal(t, slices.Equal(a, sorted), digestOf(a) == digestOf(b))
	})
}
