package compile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// A pod more or less of an account that runs the service already is a change of endpoints; another
// account is one of the clusters of the service too, of as many pods as there may be of it, and
// before the first of them is ready.
func TestClustersChangeWithTheAccountsAlone(t *testing.T) {
	m := newMeshOf(t, 100)
	mesh := model.DefaultMesh()
	mesh.AutoTLS = true
	m.apply(state.Update{Key: source.Key{
		Kind:      kinds.ConfigMap,
		Namespace: "istio-system",
		Name:      "istio",
	}, Objects: []model.Object{&mesh}})
	var placed Placement
	m.compiler.Join(Facts{Proxy: scope.Proxy{
		Address:   "127.0.0.3",
		Namespace: "ns0", Name: "secured", Settings: scope.Settings{HTTPProxyPort: 15080, Agent: true},
	}}, func(_ *Member, p Placement) { placed = p })
	class := placed.Class
	now := func() resource.State {
		for _, c := range m.last.Changed {
			if c.Class == class {
				placed.State = c.State
			}
		}
		return placed.State
	}
	podOf := func(i int, account string) state.Update {
		p := &model.Workload{
			Meta: model.Meta{Kind: kinds.Pod, Namespace: "ns7", Name: fmt.Sprint("pod", i)}, ServiceAccount: account,
			Labels: model.LabelsOf(map[string]string{model.TLSModeLabel: model.TLSModeIstio}),
		}
		return state.Update{Key: p.Key(), Objects: []model.Object{p}}
	}
	m.apply(podOf(1, "a"), podOf(2, "a"), podOf(3, "b"), podOf(4, "b"))
	// step has the slice of the service list pods that are ready and some that are not, and tells
	// how many clusters and assignments change.
	step := func(ready, unready []int) (clusters, assignments, units int) {
		t.Helper()
		u := endpointOf(7, 1)
		slice := u.Objects[0].(*model.EndpointSlice)
		slice.Hosts = nil
		for _, i := range ready {
			slice.Hosts = append(slice.Hosts, model.SliceHost{
				Address: fmt.Sprintf("127.1.0.%d", i),
				Pod:     fmt.Sprint("pod", i),
			})
		}
		for _, i := range unready {
			slice.Unready = append(slice.Unready, fmt.Sprint("pod", i))
		}
		before := now()
		m.last = Step{}
		work := m.workOf(func() { m.apply(u) })
		resource.Diff(
			before.Set(resource.Cluster), now().Set(resource.Cluster), func(_, _ *resource.Resource) { clusters++ },
		)
		resource.Diff(
			before.Set(resource.Endpoint), now().Set(resource.Endpoint),
			func(_, _ *resource.Resource) { assignments++ },
		)
		return clusters, assignments, int(work.Units)
	}
	for _, s := range []struct {
		what                  string
		ready, unready        []int
		clusters, assignments int
	}{
		{"the first", []int{1}, nil, 1, 1},
		{"one more of the account", []int{1, 2}, nil, 0, 1},
		{"one is not ready", []int{2}, []int{1}, 0, 1},
		{"and is again", []int{1, 2}, nil, 0, 1},
		{"one less", []int{2}, nil, 0, 1},
		{"another account, not ready", []int{2}, []int{3}, 1, 0},
		{"and ready", []int{2, 3}, nil, 0, 1},
		{"and another one of it", []int{2, 3, 4}, nil, 0, 1},
		{"the account before ends", []int{3, 4}, []int{2}, 0, 1},
		{"and is gone", []int{3, 4}, nil, 1, 0},
		{"nobody", nil, nil, 1, 1},
	} {
		clusters, assignments, units := step(s.ready, s.unready)
		require.Equal(t, []int{s.clusters, s.assignments}, []int{clusters, assignments}, s.what)
		if s.clusters == 0 {
			require.Zero(t, units, "%s: no class is asked", s.what)
		}
	}
}

func TestIdentitiesInOtherTrustDomains(t *testing.T) {
	names := []string{"spiffe://b/ns/x/sa/y", "web.test", "spiffe://b", "spiffe://a/ns/x/sa/y"}
	want := []string{"spiffe://a/ns/x/sa/y", "spiffe://b", "spiffe://b/ns/x/sa/y", "spiffe://c/ns/x/sa/y", "web.test"}
	require.Equal(t, want, withAliases(names, []string{"a", "c"}))
	require.Equal(t, slices.Sorted(slices.Values(names)), withAliases(names, nil))
}
