package compile

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// sidecarsOfAWorkload is how many proxies each workload of a filteredMeshOf has.
const sidecarsOfAWorkload = 10

// newFilteredMeshOf is a mesh of 1,000 services with workloads of an EnvoyFilter each.
func newFilteredMeshOf(t *testing.T, workloads int) *meshOf {
	m := newMeshOf(t, 1000)
	for i := range workloads {
		for n := range sidecarsOfAWorkload {
			m.compiler.Join(Facts{Proxy: scope.Proxy{
				Address:   fmt.Sprintf("10.%d.%d.%d", i/250, i%250, n),
				Namespace: namespaceOfWorkload(i), Name: fmt.Sprint("pod-", i, "-", n), Labels: labelsOfWorkload(i),
				Settings: scope.Settings{Intercepted: true, FiltersApart: true},
			}}, func(*Member, Placement) {})
		}
		m.apply(filterOfWorkload(t, i, 0))
	}
	return m
}

func namespaceOfWorkload(i int) string { return fmt.Sprint("ns", i%namespaces) }

func labelsOfWorkload(i int) model.Labels {
	return model.LabelsOf(map[string]string{"app": fmt.Sprint("workload-", i)})
}

func filterOfWorkload(t *testing.T, i, variant int) state.Update {
	match := "context: SIDECAR_INBOUND, listener: {filterChain: {" + fmt.Sprintf(inHCM, "router") + "}}"
	f := patchingFilter(t, fmt.Sprint("filter-", i),
		"HTTP_FILTER | "+match+" | INSERT_BEFORE | "+aloneFilter("limit", 1+variant))
	f.Meta = model.Meta{Kind: kinds.EnvoyFilter, Namespace: namespaceOfWorkload(i), Name: f.Name}
	f.Selector = labelsOfWorkload(i)
	return state.Update{Key: f.Key(), Objects: []model.Object{f}}
}

// Of 200 EnvoyFilters for 2,000 sidecars an edit of one is one small resource for the proxies of
// its workload. How many others there are makes no difference, and no listener changes, so that no
// connection is drained.
func TestAnEditOfAFilterCostsWhatItsWorkloadGets(t *testing.T) {
	costs, work := map[int]cost{}, map[int]Work{}
	for _, workloads := range []int{50, 200} {
		m := newFilteredMeshOf(t, workloads)
		costs[workloads] = m.costOf(filterOfWorkload(t, 7, 1))
		work[workloads] = m.workOf(func() { m.apply(filterOfWorkload(t, 7, 2)) })
	}
	got := costs[200]
	require.Equal(t, costs[50], got)
	require.Equal(t, work[50], work[200])
	require.Equal(t, 1, got.changed)
	require.Equal(t, 1, got.upserts)
	require.Positive(t, got.bytes)
	require.LessOrEqual(t, sidecarsOfAWorkload*got.bytes, 20_000, "bytes to all 2,000")
}
