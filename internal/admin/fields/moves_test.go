package fields

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestMembersAreFollowed: each member of a list is found again, whatever came and went between.
func TestMembersAreFollowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}).Draw(t, "members")
		cut := func(label string) (list []int) {
			n := rapid.IntRange(0, len(all)).Draw(t, label)
			list, all = all[:n:n], all[n:]
			return list
		}
		head, before, after, tail := cut("head"), cut("went"), cut("came"), cut("tail")
		before, after = slices.Concat(head, before, tail), slices.Concat(head, after, tail)
		text := func(list []int) string {
			text, err := json.Marshal(map[string]any{"l": list})
			require.NoError(t, err)
			return string(text)
		}
		_, moves := Follow(text(before), text(after))
		for i := range head {
			path, is := moves.Path(fmt.Sprintf("l[%d].x", i))
			require.True(t, is)
			require.Equal(t, fmt.Sprintf("l[%d].x", i), path)
		}
		for i := range tail {
			path, is := moves.Path(fmt.Sprintf("l[%d]", len(before)-1-i))
			require.True(t, is)
			require.Equal(t, fmt.Sprintf("l[%d]", len(after)-1-i), path)
		}
	})
}

// TestWhatHasNoPlaceIsGone: members that went, and nothing else.
func TestWhatHasNoPlaceIsGone(t *testing.T) {
	_, moves := Follow(`{"a": {"l": [1, 2, 3, 4], "m": [1]}}`, `{"a": {"l": [1, 9, 4], "m": [1]}}`)
	for path, want := range map[string]string{
		"a.l[0]": "a.l[0]", "a.l[1].x": "a.l[1].x", "a.l[2]": "", "a.l[3].x[7]": "a.l[2].x[7]",
		"a.m[3]": "a.m[3]", "a.l": "a.l", "a.l[name]": "a.l[name]", "b.a.l[2]": "b.a.l[2]",
	} {
		got, is := moves.Path(path)
		require.Equal(t, want != "", is, path)
		if is {
			require.Equal(t, want, got)
		}
	}
}
