package state

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type member struct{ key, value int }

// A tree is what a map would be, sorted; and those of earlier steps stay what they were.
func TestABTreeIsASortedMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newBTree(&atomic.Uint64{}, func(a, b *member) int { return cmp.Compare(a.key, b.key) })
		model := map[int]int{}
		type moment struct {
			tree  *btree[member]
			model map[int]int
		}
		var past []moment
		keys := rapid.IntRange(0, rapid.SampledFrom([]int{3, 100, 5000}).Draw(t, "keys"))
		for n := range rapid.IntRange(1, 40).Draw(t, "steps") {
			past = append(past, moment{r, maps.Clone(model)})
			tx := new(txn)
			first, count := keys.Draw(t, "first"), rapid.IntRange(1, 200).Draw(t, "count")
			add := rapid.Bool().Draw(t, "add")
			for i := range count {
				k := first + i
				if add {
					r = r.with(tx, &member{k, n})
					model[k] = n
				} else {
					r = r.without(tx, memberAt(k))
					delete(model, k)
				}
				if rapid.IntRange(0, 20).Draw(t, "goes on") == 0 {
					past = append(past, moment{r, maps.Clone(model)})
					tx = new(txn)
				}
			}
		}
		for _, m := range append(past, moment{r, model}) {
			checkBTree(t, m.tree, m.model)
		}
	})
}

func memberAt(key int) func(*member) int {
	return func(m *member) int { return cmp.Compare(m.key, key) }
}

func checkBTree(t *rapid.T, r *btree[member], model map[int]int) {
	sorted := slices.Sorted(maps.Keys(model))
	for i, k := range sorted {
		before, after := r.around(memberAt(k))
		if *after != (member{k, model[k]}) || before != nil && *before != (member{
			sorted[i-1], model[sorted[i-1]],
		}) { // nil where a leaf begins
			require.Fail(t, "not those around it", "%d: %v %v", k, before, after)
		}
	}
	require.Equal(t, len(sorted), r.size)
	from := 0
	if len(sorted) > 0 {
		from = sorted[len(sorted)/2]
	}
	var got []int
	for m := range r.from(memberAt(from), func(*member) bool { return true }) {
		require.Equal(t, model[m.key], m.value)
		got = append(got, m.key)
	}
	require.True(t, slices.Equal(sorted[len(sorted)/2:], got))
	for _, k := range sorted {
		require.Equal(t, model[k], r.get(memberAt(k)).value)
	}
	require.Nil(t, r.get(memberAt(-1)))
	checkWidth(t, r.root)
}

func checkWidth(t *rapid.T, n *btreeNode[member]) {
	if n == nil {
		return
	}
	require.LessOrEqual(t, n.entries(), btreeWidth)
	for _, c := range n.children {
		checkWidth(t, c)
	}
}
