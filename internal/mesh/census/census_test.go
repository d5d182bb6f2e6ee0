package census

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// TestCensus: what each namespace sees with and without a Sidecar, names that are looked up, routes
// that lead elsewhere, and gateways.
func TestCensus(t *testing.T) {
	var updates []state.Update
	add := func(kind kinds.Kind, namespace, name string, of func(model.Meta) model.Object) {
		m := model.Meta{Kind: kind, Namespace: namespace, Name: name}
		updates = append(updates, state.Update{Key: m.Key(), Objects: []model.Object{of(m)}})
	}
	service := func(namespace, name string, edit func(*model.Service)) {
		add(kinds.Service, namespace, name, func(m model.Meta) model.Object {
			s := &model.Service{Meta: m, Host: model.Host(name + "." + namespace + ".svc.cluster.local"),
				ExportTo: model.Exports{All: true}, Ports: []model.ServicePort{{Port: 80}, {Port: 81}}}
			if edit != nil {
				edit(s)
			}
			return s
		})
	}
	mesh := model.DefaultMesh()
	add(kinds.ConfigMap, "istio-system", "istio", func(model.Meta) model.Object { return &mesh })
	service("a", "one", nil)
	service("a", "own", func(s *model.Service) { s.ExportTo = model.Exports{Own: true} })
	service("b", "two", nil)
	service("c", "ext", func(s *model.Service) {
		s.Kind, s.Resolution = kinds.ServiceEntry, model.StrictDNS
		s.Endpoints = []model.Endpoint{{Address: "x.example.com"}, {Address: "y.example.com"}, {Address: "192.0.2.1"}}
	})
	for _, pod := range []struct {
		namespace string
		gateway   bool
		own       *model.OwnAddresses
	}{{"a", false, &model.OwnAddresses{Outbound: "127.0.0.9"}}, {"b", false, nil}, {"b", true, nil}} {
		name := "pod"
		if pod.gateway {
			name = "gateway"
		}
		add(kinds.Pod, pod.namespace, name, func(m model.Meta) model.Object {
			return &model.Workload{Meta: m, Gateway: pod.gateway, Own: pod.own}
		})
	}
	add(kinds.Sidecar, "b", "default", func(m model.Meta) model.Object {
		return &model.Sidecar{Meta: m, Egress: []model.EgressListener{{Hosts: []model.ScopedHost{
			{Namespace: "b", Host: "*"},
		}}}}
	})
	add(kinds.VirtualService, "a", "route", func(m model.Meta) model.Object {
		return &model.VirtualService{Meta: m, Hosts: []model.Host{"old.example.com"},
			Gateways: []string{model.Mesh, "b/web"}, ExportTo: model.Exports{All: true},
			HTTP: []*model.HTTPRoute{{Destinations: []model.Destination{{Host: "two.b.svc.cluster.local"}}}}}
	})
	w, _ := state.NewWriter().Apply(updates)

	c := Of(w)
	require.Equal(t, "istio-system", c.RootNamespace)
	require.Equal(t, 2, c.RoutedPorts)
	require.Equal(t, []Namespace{
		{Name: "a", Workloads: 1, Services: 2, SeenServices: 4, SeenPorts: 8, Configures: true,
			Admins: []string{"127.0.0.9"}},
		{Name: "b", Workloads: 1, Gateways: 1, Services: 1, SeenServices: 1, SeenPorts: 2, Sidecar: "default"},
		{Name: "c", Services: 1, Configures: true},
	}, c.Namespaces)
	require.Len(t, c.Services, 4)
	require.Equal(t, model.Host("ext.c.svc.cluster.local"), c.Services[0].Host)
	require.Equal(t, 4, c.Services[0].Lookups, "two names for each of two ports")
	require.Equal(t, []model.ScopedHost{{Namespace: "a", Host: "old.example.com"}}, c.Services[3].RoutedFrom)
}
