package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// An endpoint that moves between slices is there in each generation in which any of them has it,
// and nobody is told of the move: whichever of the writes comes first, and however they are cut
// into batches.
func TestAnEndpointMovesBetweenSlicesWithoutAGap(t *testing.T) {
	here, away := []model.SliceHost{{Address: "127.0.0.7", Pod: "p"}}, []model.SliceHost(nil)
	for name, move := range map[string]struct {
		start, writes []Update
	}{
		"to a slice with others": {
			[]Update{endpointSlice("a", here...), endpointSlice("b", model.SliceHost{Address: "127.0.0.8"})},
			[]Update{endpointSlice("a", away...), endpointSlice("b", here[0], model.SliceHost{Address: "127.0.0.8"})},
		},
		"to a new slice": {
			[]Update{endpointSlice("a", here...)}, []Update{endpointSlice("a", away...), endpointSlice("b", here...)},
		},
		"to one with a lower name": {
			[]Update{endpointSlice("b", here...)}, []Update{endpointSlice("b", away...), endpointSlice("a", here...)},
		},
		"with a renamed slice": {
			[]Update{endpointSlice("a", here...)}, []Update{gone(endpointSlice("a")), endpointSlice("b", here...)},
		},
		"by way of a third": {
			[]Update{endpointSlice("b", here...)},
			[]Update{
				endpointSlice("c", here...), gone(endpointSlice("b")), endpointSlice("a", here...),
				endpointSlice("c", away...),
			},
		},
	} {
		for _, order := range permutations(len(move.writes)) {
			for cuts := range 1 << (len(move.writes) - 1) {
				t.Run(fmt.Sprint(name, order, cuts), func(t *testing.T) {
					requireNoGap(t, move.start, inBatches(move.writes, order, cuts))
				})
			}
		}
	}
}

// requireNoGap applies batches to slices that have an endpoint at first.
func requireNoGap(t *testing.T, start []Update, batches [][]Update) {
	w := NewWriter()
	w.Apply(append([]Update{kubeService("default", "a"), pod("p", map[string]string{"version": "v1"})}, start...))
	listed := map[string]bool{}
	list := func(batch []Update) (anywhere bool) {
		for _, u := range batch {
			listed[u.Key.Name] = len(u.Objects) > 0 && slices.ContainsFunc(
				u.Objects[0].(*model.EndpointSlice).Hosts, func(h model.SliceHost) bool { return h.Pod == "p" },
			)
		}
		for _, has := range listed {
			anywhere = anywhere || has
		}
		return anywhere
	}
	before := list(start)
	for _, batch := range batches {
		now, d := w.Apply(batch)
		after := list(batch)
		_, there := endpointsOf(now)["127.0.0.7:8080/http"]
		require.Equal(t, after, there)
		if before == after {
			require.Empty(t, d.Endpoints)
		}
		before = after
	}
}

func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, p := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(p), at, n-1))
		}
	}
	return all
}

// inBatches puts writes into an order, and begins another batch after those whose bit is set.
func inBatches(writes []Update, order []int, cuts int) [][]Update {
	batches := [][]Update{nil}
	for i, which := range order {
		last := len(batches) - 1
		batches[last] = append(batches[last], writes[which])
		if cuts>>i&1 == 1 {
			batches = append(batches, nil)
		}
	}
	return batches
}
