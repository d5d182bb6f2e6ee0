package compile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// servedService is svc0 or svc50 of ns0, whose workloads listen on port 8080.
func servedService(i int) state.Update {
	u := serviceNumber(i, 0)
	s := u.Objects[0].(*model.Service)
	s.Selector = model.LabelsOf(map[string]string{"app": s.Name})
	s.Ports[0].Target = 8080
	return u
}

// limited is the rule of svc0 that lets its callers have so many connections.
func limited(most uint32) state.Update {
	r := &model.DestinationRule{
		Meta:     model.Meta{Kind: kinds.DestinationRule, Namespace: "ns0", Name: "svc0"},
		ExportTo: model.Exports{All: true},
		Host:     model.Resolve("svc0", "ns0", "cluster.local"),
		Policy:   &model.TrafficPolicy{Pool: &model.ConnectionPool{MaxConnections: most}},
	}
	return state.Update{Key: r.Key(), Objects: []model.Object{r}}
}

func (m *meshOf) joinServed(app string) (joined *Member) {
	m.compiler.Join(Facts{Proxy: scope.Proxy{
		Address: "127.0.0.3", Namespace: "ns0", Name: app, Settings: scope.Settings{HTTPProxyPort: 15080},
		Labels: model.LabelsOf(map[string]string{"app": app}),
	}}, func(at *Member, _ Placement) { joined = at })
	return joined
}

func inboundCluster(m *Member) string {
	return string(m.variant.state.Set(resource.Cluster).Get("inbound|8080||").Body())
}

// Proxies that all get the same class, which nobody has, take theirs along: it is compiled where
// the two differ, and no proxy moves. It is copied only if a proxy stays behind.
func TestProxiesThatLeaveTogetherTakeTheirClassAlong(t *testing.T) {
	m := newMeshOf(t, 2*namespaces)
	m.apply(servedService(0), servedService(namespaces))
	one, two, other := m.joinServed("svc0"), m.joinServed("svc0"), m.joinServed("svc50")
	require.Same(t, one.variant, other.variant, "they serve the same port")
	unlimited := inboundCluster(one)
	units := func(u state.Update) uint64 { return m.workOf(func() { m.apply(u) }).Units }

	units(limited(1))
	require.Len(t, m.last.Moved, 2, "the other proxy keeps the class")
	at, first := one.variant, inboundCluster(one)
	require.NotEqual(t, unlimited, first)
	require.Equal(t, unlimited, inboundCluster(other))
	require.LessOrEqual(t, units(limited(2)), uint64(5))
	require.NotEqual(t, first, inboundCluster(one))
	require.Same(t, at, one.variant)
	require.Same(t, at, two.variant)
	require.Empty(t, m.last.Moved)
	told := map[resource.ClassID]resource.State{}
	for _, c := range m.last.Changed {
		require.NotContains(t, told, c.Class, "a class is told once")
		told[c.Class] = c.State
	}
	require.True(t, at.state == told[at.id])
	require.Same(t, at.class, m.compiler.classes[at.class.key])
	require.Len(t, m.compiler.classes, namespaces+2)

	late := m.joinServed("svc0")
	require.Same(t, at, late.variant, "it is the class of such proxies now")
	for _, gone := range []*Member{one, two, late, other} {
		m.compiler.Leave(gone)
	}
	require.Len(t, m.compiler.classes, namespaces)
}

// What others have in common with a proxy that leaves them stays theirs.
func TestAProxyThatLeavesOthersTakesNothingAlong(t *testing.T) {
	m := newMeshOf(t, namespaces)
	m.apply(servedService(0))
	stays, leaves := m.joinServed("svc0"), m.joinServed("svc0")
	at, before := stays.variant, stays.variant.state
	pod := &model.Workload{
		Meta:      model.Meta{Kind: kinds.Pod, Namespace: "ns0", Name: "other"},
		Addresses: []string{"127.0.0.3"},
	}
	m.compiler.Leave(leaves)
	m.compiler.Join(Facts{Proxy: scope.Proxy{
		Address: "127.0.0.3", Namespace: "ns0", Name: "other", Settings: scope.Settings{HTTPProxyPort: 15080},
		Labels: model.LabelsOf(map[string]string{"app": "svc0"}),
	}}, func(joined *Member, _ Placement) { leaves = joined })
	require.Same(t, at, leaves.variant)

	m.apply(state.Update{Key: pod.Key(), Objects: []model.Object{pod}}) // by its record it has no labels
	require.Len(t, m.last.Moved, 1)
	require.NotSame(t, at, leaves.variant)
	require.Same(t, at, stays.variant)
	require.True(t, before.Set(resource.Cluster) == at.state.Set(resource.Cluster))
}
