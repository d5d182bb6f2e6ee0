package kube

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// After any plan exactly what is wanted is watched, each namespace once, and not more on their own
// than allowed.
func TestPlansReachTheWantedNamespaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := watched{own: map[string]bool{}}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			wanted := drawNamespaces(t)
			p := planOf(now, wanted)
			require.False(t, p.rebuild && len(p.leave) > 0)
			if p.rebuild {
				now = watched{wide: p.wide, own: map[string]bool{}}
				if p.wide {
					now.served = maps.Clone(wanted)
				}
			}
			for _, ns := range p.leave {
				require.True(t, now.own[ns] || now.served[ns])
				delete(now.own, ns)
				delete(now.served, ns)
			}
			for _, ns := range p.start {
				require.False(t, now.own[ns] || now.served[ns])
				now.own[ns] = true
			}
			require.LessOrEqual(t, len(now.own), maxOwnWatches)
			if wanted == nil {
				require.True(t, now.wide && now.served == nil && len(now.own) == 0)
				continue
			}
			require.Equal(t, slices.Sorted(maps.Keys(wanted)), slices.Sorted(maps.Keys(union(now.own, now.served))))
			again := planOf(now, wanted)
			require.True(t, !again.rebuild && len(again.start)+len(again.leave) == 0, "it is done")
		}
	})
}

func union(a, b map[string]bool) map[string]bool {
	out := map[string]bool{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

func drawNamespaces(t *rapid.T) map[string]bool {
	if rapid.IntRange(0, 5).Draw(t, "all") == 0 {
		return nil
	}
	wanted := map[string]bool{}
	first := rapid.IntRange(0, 20).Draw(t, "first")
	for i := range rapid.SampledFrom([]int{0, 1, 10, 17, 31, 33, 60}).Draw(t, "count") {
		wanted[fmt.Sprint(first+i)] = true
	}
	return wanted
}
