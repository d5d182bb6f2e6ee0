package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// callsRouted are Services and routes whose parents they are, by turns.
func callsRouted(services, routes int) []Update {
	var all []Update
	for i := range services {
		m := model.Meta{Kind: kinds.Service, Namespace: "a", Name: fmt.Sprint("s", i)}
		all = append(all, Update{Key: m.Key(), Objects: []model.Object{&model.Service{
			Meta: m, Host: model.Resolve(m.Name, "a", "cluster.local"), ExportTo: model.Exports{All: true},
			Ports: []model.ServicePort{{Name: "http", Port: 80}},
		}}})
	}
	for i := range routes {
		all = append(all, callRouted(i, i%services, "/"))
	}
	return all
}

func callRouted(i, service int, path string) Update {
	m := model.Meta{Kind: kinds.HTTPRoute, Namespace: "a", Name: fmt.Sprintf("r%05d", i)}
	name := fmt.Sprint("s", service)
	host := model.Resolve(name, "a", "cluster.local")
	return Update{Key: m.Key(), Objects: []model.Object{&model.AttachedRoute{
		Meta: m, Accepted: model.Condition{Status: true}, ResolvedRefs: model.Condition{Status: true},
		Parents: []model.ParentRef{{Kind: "Service", Name: name, Host: host}},
		HTTP: []*model.HTTPRoute{{
			Matches: []*model.HTTPMatch{{
				URI: &model.StringMatch{Kind: model.PathPrefix, Value: fmt.Sprint(path, i)},
			}},
			Destinations: []model.Destination{{Host: host, Port: 80, Weight: 1}},
		}},
	}}}
}

// A changed route of a Service costs the routes of this Service, whatever others there are: a fixed
// number of allocations for each of them, because a caller has one list of routes for a host.
func TestARouteOfAServiceCostsTheRoutesOfItsService(t *testing.T) {
	allocations := func(services, routes int) float64 {
		w := NewWriter()
		w.Apply(callsRouted(services, routes))
		variants := [2][]Update{{callRouted(0, 0, "/x")}, {callRouted(0, 0, "/y")}}
		n := 0
		return testing.AllocsPerRun(10, func() {
			_, d := w.Apply(variants[n%2])
			n++
			require.Len(t, d.VirtualServices, 1)
		})
	}
	alone, amongMany, all := allocations(10, 10), allocations(5000, 5000), allocations(1, 5000)
	t.Logf("a Service with one route: %.0f; among 5,000 such Services: %.0f; one with 5,000: %.0f",
		alone, amongMany, all)
	require.Less(t, amongMany, alone+100, "deeper trees alone may make a difference")
	require.Less(t, all, alone+5000*12)
}
