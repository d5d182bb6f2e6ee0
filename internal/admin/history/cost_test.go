package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin/page"
)

// TestCostsAddUp: what each object and namespace has cost is the sum of its shares, and all of them
// are the total.
func TestCostsAddUp(t *testing.T) {
	s := NewStore(64 << 20)
	var want page.CostRow
	for n := range 5000 {
		e := generationOf(n)
		e.Seconds, e.Delivery.Bytes = 0.001*float64(n%7), int64(n%11)*1000
		for i := range n % 3 {
			e.Causes = append(e.Causes, page.Cause{Kind: "Service", Namespace: "noisy", Name: fmt.Sprint(i)})
		}
		if n%500 == 0 {
			e.Causes, e.Undo, e.Objects = nil, nil, nil
		}
		if n%700 == 0 && len(e.Causes) > 0 {
			e.MoreCauses = 2
		}
		s.add(e)
		want.Add(page.CostRow{
			Changes: len(e.Causes) + e.MoreCauses, Seconds: e.Seconds, Bytes: float64(e.Delivery.Bytes),
			Pushes: float64(e.Delivery.Proxies),
		})
	}
	for _, by := range []string{page.ByNamespace, page.ByObject} {
		cost := s.Cost(time.Time{}, by)
		var sum page.CostRow
		for _, row := range cost.Rows {
			sum.Add(row)
		}
		require.LessOrEqual(t, len(cost.Rows), maxCosts)
		require.Equal(t, want.Changes, sum.Changes)
		for _, got := range []page.CostRow{sum, cost.Total} {
			require.InEpsilon(t, want.Seconds, got.Seconds, 1e-9)
			require.InEpsilon(t, want.Bytes, got.Bytes, 1e-9)
			require.InEpsilon(t, want.Pushes, got.Pushes, 1e-9)
		}
		require.Equal(t, begin, cost.Since)
	}
	require.Equal(t, "noisy", s.Cost(time.Time{}, page.ByNamespace).Rows[0].Name)
	last := s.Cost(begin.Add(4999*time.Second), page.ByObject)
	require.Equal(t, 2, last.Total.Changes)
	require.Len(t, last.Rows, 2)
}
