package scope_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

func (o *objects) limit(namespace, name string, host model.Host, p *model.TrafficPolicy) {
	m := model.Meta{Kind: kinds.DestinationRule, Namespace: namespace, Name: name}
	o.add(m, &model.DestinationRule{Meta: m, Host: host, Policy: p, ExportTo: everyone})
}

func connections(most uint32) *model.TrafficPolicy {
	return &model.TrafficPolicy{Pool: &model.ConnectionPool{MaxConnections: most}}
}

// The rule of the first service that leads to a port counts for the port, as calls from the
// workload's own namespace have it; what the Sidecar says comes first.
func TestPoolsOfAWorkloadsOwnPorts(t *testing.T) {
	const host = "a.shop.svc.cluster.local"
	perPort := connections(7)
	perPort.Ports = []model.PortPolicy{{Port: 80, Policy: connections(8)}, {Port: 81, Policy: connections(9)}}
	selecting := func(o *objects) {
		m := model.Meta{Kind: kinds.DestinationRule, Namespace: "shop", Name: "selecting"}
		o.add(m, &model.DestinationRule{Meta: m, Host: host, Selector: appA, Policy: connections(1)})
	}
	sidecar := func(port, all *model.ConnectionPool) func(o *objects) {
		return func(o *objects) {
			m := model.Meta{Kind: kinds.Sidecar, Namespace: "shop", Name: "s"}
			o.add(m, &model.Sidecar{Meta: m, Pool: all, Ingress: []model.IngressListener{{Port: 8080, Pool: port}}})
		}
	}
	for _, c := range []struct {
		name string
		add  func(o *objects)
		want uint32 // 0 for no pool
	}{
		{"nothing said", func(*objects) {}, 0},
		{"of the service", func(o *objects) { o.limit("shop", "r", host, connections(7)) }, 7},
		{"of its port", func(o *objects) { o.limit("shop", "r", host, perPort) }, 8},
		{"of the root namespace", func(o *objects) { o.limit("istio-system", "r", "*.local", connections(7)) }, 7},
		{"its own before the root's", func(o *objects) {
			o.limit("istio-system", "r", "*.local", connections(7))
			o.limit("shop", "r", host, connections(6))
		}, 6},
		{"one that limits nothing comes before a wildcard's", func(o *objects) {
			o.limit("shop", "wide", "*.local", connections(7))
			o.limit("shop", "r", host, nil)
		}, 0},
		{"of others", func(o *objects) { o.limit("other", "r", host, connections(7)) }, 0},
		{"an upgrade alone", func(o *objects) {
			o.limit("shop", "r", host, &model.TrafficPolicy{Pool: &model.ConnectionPool{UpgradeHTTP2: true}})
		}, 0},
		{"one that selects workloads is for their calls", selecting, 0},
		{"the Sidecar first", func(o *objects) {
			o.limit("shop", "r", host, connections(7))
			sidecar(nil, &model.ConnectionPool{MaxConnections: 3})(o)
		}, 3},
		{"its port before all", sidecar(
			&model.ConnectionPool{MaxConnections: 2}, &model.ConnectionPool{MaxConnections: 3},
		), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o objects
			o.service("shop", "a", everyone)
			c.add(&o)
			pool := o.seenBy(inShop).InboundPool(8080)
			if c.want == 0 {
				require.Nil(t, pool)
				return
			}
			require.Equal(t, c.want, pool.MaxConnections)
		})
	}
}

// A rule splits off the workloads of its own service, and equal limits split nothing.
func TestPoolsSplitNoOtherClass(t *testing.T) {
	var o objects
	for _, app := range []string{"a", "b", "c"} {
		o.service("shop", app, everyone)
	}
	c, w := scope.NewClassifier(), state.NewWriter()
	classes := func(o objects) (found []scope.Class) {
		now, _ := w.Apply(o)
		for _, app := range []string{"a", "b", "c"} {
			labels := model.LabelsOf(map[string]string{"app": app})
			found = append(found, c.Classify(now, scope.Proxy{Namespace: "shop", Name: app, Labels: labels}))
		}
		return found
	}
	before := classes(o)
	require.Equal(t, before[0], before[2])
	var rules objects
	rules.limit("shop", "a", "a.shop.svc.cluster.local", connections(7))
	rules.limit("shop", "b", "b.shop.svc.cluster.local", connections(7))
	after := classes(rules)
	require.Equal(t, after[0], after[1])
	require.NotEqual(t, after[0], after[2])
	require.Equal(t, before[2], after[2])
}
