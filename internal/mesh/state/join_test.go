package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// A change of one host of a slice, or of its pod, looks up no pod of another host.
func TestAHostThatStaysIsNotJoinedAgain(t *testing.T) {
	lookups := func(hosts int) (host, itsPod uint64) {
		w := NewCountingWriter()
		updates := []Update{kubeService("default", "a")}
		var list []model.SliceHost
		for i := range hosts {
			name := fmt.Sprint("p", i)
			updates = append(updates, pod(name, nil))
			list = append(list, model.SliceHost{Address: fmt.Sprintf("127.0.%d.%d", i/250, i%250), Pod: name})
		}
		w.Apply(append(updates, endpointSlice("s", list...)))
		of := func(u Update) uint64 {
			before := w.Snapshot().Lookups()
			_, d := w.Apply([]Update{u})
			require.Len(t, d.Endpoints, 1)
			require.Len(t, d.Endpoints[0].IDs, 1)
			return w.Snapshot().Lookups() - before
		}
		otherwise := slices.Clone(list)
		otherwise[3].Health = model.Draining
		return of(endpointSlice("s", otherwise...)), of(pod("p5", map[string]string{"version": "v2"}))
	}
	host, itsPod := lookups(10)
	hostOfMany, itsPodOfMany := lookups(1000)
	require.Equal(t, host, hostOfMany)
	require.Equal(t, itsPod, itsPodOfMany)
}

// Of an address that stands twice in a slice the first counts, whichever of the two comes, goes or
// stays.
func TestAnAddressMayStandTwiceInASlice(t *testing.T) {
	p, q := model.SliceHost{Address: "127.0.0.7", Pod: "p"}, model.SliceHost{Address: "127.0.0.7", Pod: "q"}
	pods := []Update{kubeService("default", "a"), pod(
		"p", map[string]string{"version": "v1"},
	), pod("q", map[string]string{"version": "v2"})}
	orders := [][]model.SliceHost{{p, q}, {q, p}, {p}, {q}, {p, p}, {q, q}, {}}
	for i, from := range orders {
		for j, to := range orders {
			w, anew := NewWriter(), NewWriter()
			w.Apply(append([]Update{endpointSlice("s", from...)}, pods...))
			w.Apply([]Update{endpointSlice("s", to...)})
			anew.Apply(append([]Update{endpointSlice("s", to...)}, pods...))
			require.Equal(t, endpointsOf(anew.Snapshot()), endpointsOf(w.Snapshot()), "%d to %d", i, j)
			if len(to) > 0 {
				w.Apply([]Update{gone(pod("p", nil))})
				anew.Apply([]Update{gone(pod("p", nil))})
				require.Equal(t, endpointsOf(anew.Snapshot()), endpointsOf(w.Snapshot()), "%d to %d", i, j)
			}
		}
	}
}
