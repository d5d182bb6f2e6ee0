package census

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
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

// TestNamespacesOfDelegatesConfigure: without its namespace a delegate would be gone, and the
// routes that delegate to it closed.
func TestNamespacesOfDelegatesConfigure(t *testing.T) {
	meta := func(namespace string) model.Meta {
		return model.Meta{Kind: kinds.VirtualService, Namespace: namespace, Name: "v"}
	}
	key := func(namespace string) source.Key { m := meta(namespace); return m.Key() }
	delegate := func(namespace string) model.Object {
		return &model.DelegateRoutes{
			Meta: meta(namespace), ExportTo: model.Exports{All: true}, Given: make([]model.Given, 1),
			HTTP: []*model.HTTPRoute{{Direct: &model.DirectResponse{Status: 200}}},
		}
	}
	root := &model.RootRoutes{
		VirtualService: model.VirtualService{
			Meta: meta("a"), Hosts: []model.Host{"a.test"}, Gateways: []string{model.Mesh},
			HTTP: []*model.HTTPRoute{{}},
		},
		Delegations: []model.Delegation{{To: model.ObjectName{Namespace: "b", Name: "v"}}},
	}
	updates := []state.Update{
		{Key: key("a"), Objects: []model.Object{root}},
		{Key: key("b"), Objects: []model.Object{delegate("b")}},
		{Key: key("unused"), Objects: []model.Object{delegate("unused")}},
	}
	w, _ := state.NewWriter().Apply(updates)
	for _, n := range Of(w).Namespaces {
		require.True(t, n.Configures, n.Name)
	}
	require.Len(t, Of(w).Namespaces, 3)
}

// TestReportsAreThoseOfTheWholeMesh: a Telemetry in the root namespace counts, if it is in force.
func TestReportsAreThoseOfTheWholeMesh(t *testing.T) {
	file := &model.AccessLog{Path: model.StandardOutput}
	builtin := model.LogProvider{Name: model.BuiltinLog, Log: file}
	filtered := model.LogRule{Providers: []model.LogProvider{builtin}, Filter: "response.code >= 400"}
	inherits := model.LogRule{Inherits: true, Filter: "response.code >= 400"}
	percent := uint32(5 * model.SamplePercent)
	telemetry := func(namespace string, labels map[string]string, logs ...model.LogRule) *model.Telemetry {
		t := &model.Telemetry{AccessLogs: logs, Tracing: []model.TracingRule{{Inherits: true, Sampling: &percent}}}
		t.Meta = model.Meta{Kind: kinds.Telemetry, Namespace: namespace, Name: "errors"}
		t.Selector = model.LabelsOf(labels)
		return t
	}
	for name, c := range map[string]struct {
		defaults  []model.LogProvider
		telemetry *model.Telemetry
		want      Reports
	}{
		"accessLogFile": {want: Reports{AccessLogs: true, LegacyLogs: true, Sampling: 100}},
		"a filter without providers is one of accessLogFile": {
			telemetry: telemetry("istio-system", nil, inherits), want: Reports{Sampling: 5, Telemetry: "errors"},
		},
		"a filter with its provider": {
			telemetry: telemetry("istio-system", nil, filtered), want: Reports{Sampling: 5, Telemetry: "errors"},
		},
		"a filter of a default provider": {
			defaults: []model.LogProvider{builtin}, telemetry: telemetry("istio-system", nil, inherits),
			want: Reports{Sampling: 5, Telemetry: "errors"},
		},
		"a namespace": {
			telemetry: telemetry("shop", nil, filtered),
			want:      Reports{AccessLogs: true, LegacyLogs: true, Sampling: 100},
		},
		"some workloads": {
			telemetry: telemetry("istio-system", map[string]string{"app": "a"}, filtered),
			want:      Reports{AccessLogs: true, LegacyLogs: true, Sampling: 100},
		},
	} {
		mesh := model.DefaultMesh()
		mesh.DefaultLogs = c.defaults
		mesh.AccessLogs, mesh.LegacyLogs = []*model.AccessLog{file}, []*model.AccessLog{file}
		mesh.Tracing = model.Tracing{Tracer: &model.Tracer{}, Sampling: 100 * model.SamplePercent}
		config := model.Meta{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"}
		updates := []state.Update{{Key: config.Key(), Objects: []model.Object{&mesh}}}
		if c.telemetry != nil {
			updates = append(updates, state.Update{
				Key: c.telemetry.Key(), Objects: []model.Object{c.telemetry},
			})
		}
		w, _ := state.NewWriter().Apply(updates)
		require.Equal(t, c.want, Of(w).Reports, name)
	}
}
