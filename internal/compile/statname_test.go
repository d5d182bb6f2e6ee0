package compile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// configured is the update to a mesh configuration.
func configured(change func(*model.MeshConfig)) []state.Update {
	mesh := model.DefaultMesh()
	change(&mesh)
	key := source.Key{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"}
	return []state.Update{{Key: key, Objects: []model.Object{&mesh}}}
}

// What names a cluster in statistics changes: the mesh's pattern, and each part of a service alone.
// Random lives hardly ever bring one without the others.
func TestNamesInStatisticsFollowTheMeshAndTheService(t *testing.T) {
	labels := model.LabelsOf(map[string]string{"app": "p"})
	of := func(name, portName string, port uint16) *model.Service {
		svc := aloneService(name, model.ServicePort{Name: portName, Port: port, Protocol: model.TCP, Target: 8080})
		svc.Host, svc.Selector, svc.Addresses = "a.test", labels, []string{"10.0.0.1"}
		return svc
	}
	pattern := func(p model.StatPattern) []state.Update {
		return configured(func(m *model.MeshConfig) { m.InboundStatName, m.OutboundStatName = p, p })
	}
	const all = "%SERVICE%_%SERVICE_PORT%_%SERVICE_PORT_NAME%"
	first := of("a", "tcp", 80)
	for _, settings := range []scope.Settings{{Intercepted: true}, {}, {Intercepted: true, IstioFilters: true}} {
		requireFollowsUpdates(t, scope.Proxy{Namespace: "default", Name: "p", Labels: labels, Settings: settings},
			[][]state.Update{
				updatesOf([]model.Object{first}),
				pattern(all),
				updatesOf([]model.Object{of("a", "tcp-b", 80)}),
				updatesOf([]model.Object{of("a", "tcp-b", 81)}),
				pattern("%SERVICE_FQDN%"),
				pattern(all),
				pattern(""),
			})
	}
}

// A port of the Sidecar is named after the service that leads to it, else after the Sidecar.
func TestNamesInStatisticsOfPortsOfASidecar(t *testing.T) {
	labels := model.LabelsOf(map[string]string{"app": "p"})
	svc := aloneService("a", model.ServicePort{Name: "tcp", Port: 80, Protocol: model.TCP, Target: 8080})
	svc.Selector = labels
	sidecar := &model.Sidecar{Meta: aloneMeta(kinds.Sidecar, "s"), Ingress: []model.IngressListener{
		{Name: "one", Port: 8080, Protocol: model.TCP}, {Name: "two", Port: 8081, Protocol: model.TCP},
	}}
	w := state.NewWriter()
	w.Apply(append(updatesOf([]model.Object{svc, sidecar}), configured(func(m *model.MeshConfig) {
		m.InboundStatName = "%SERVICE%:%SERVICE_PORT%:%SERVICE_PORT_NAME%:%TARGET_PORT%"
	})...))
	p := scope.Proxy{Namespace: "default", Name: "p", Labels: labels, Settings: scope.Settings{Intercepted: true}}
	clusters := placeIn(t, w.Snapshot(), p).state.Set(resource.Cluster)
	require.Contains(t, string(clusters.Get("inbound|8080||").Body()), "a.default:8080:one:8080;")
	require.Contains(t, string(clusters.Get("inbound|8081||").Body()), "s.default:8081:two:8081;")
}

// TestTheMeshsPoolAndRulesWithoutLimits: a rule that says something of connections keeps the mesh's
// limits from the workload's ports too, even where it limits nothing there.
func TestTheMeshsPoolAndRulesWithoutLimits(t *testing.T) {
	labels := model.LabelsOf(map[string]string{"app": "p"})
	svc := aloneService("a", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP, Target: 8080})
	svc.Selector = labels
	rule := &model.DestinationRule{
		Meta: aloneMeta(kinds.DestinationRule, "r"), Host: svc.Host, ExportTo: everywhere,
		Policy: &model.TrafficPolicy{Pool: &model.ConnectionPool{UpgradeHTTP2: true}},
	}
	limit := configured(func(m *model.MeshConfig) {
		m.Clusters = &model.ClusterDefaults{Pool: &model.ConnectionPool{MaxConnections: 77}}
	})
	p := scope.Proxy{Namespace: "default", Name: "p", Labels: labels, Settings: scope.Settings{Intercepted: true}}
	requireFollowsUpdates(t, p, [][]state.Update{
		updatesOf([]model.Object{svc}), updatesOf([]model.Object{rule}), limit, {{Key: rule.Key()}},
	})
	w := state.NewWriter()
	w.Apply(append(updatesOf([]model.Object{svc, rule}), limit...))
	clusters := placeIn(t, w.Snapshot(), p).state.Set(resource.Cluster)
	const most = "\x08\x4d" // 77, as a protobuf wrapper
	require.NotContains(t, string(clusters.Get("inbound|8080||").Body()), most)
	require.Contains(t, string(clusters.Get("InboundPassthroughCluster").Body()), most)
}

// How long proxies wait for the bytes that tell a protocol changes alone. Random lives hardly ever
// bring this.
func TestTheDetectionTimeoutChanges(t *testing.T) {
	timeout := func(d time.Duration) []state.Update {
		return configured(func(m *model.MeshConfig) { m.DetectionTimeout = d })
	}
	svc := aloneService("a", model.ServicePort{Name: "a", Port: 80})
	svc.Addresses = []string{"10.0.0.1"}
	requireFollowsUpdates(t, scope.Proxy{Namespace: "default", Name: "p", Settings: scope.Settings{Intercepted: true}},
		[][]state.Update{
			append(updatesOf([]model.Object{svc}), timeout(time.Second)...),
			timeout(time.Minute), timeout(0), timeout(time.Second),
		})
}
