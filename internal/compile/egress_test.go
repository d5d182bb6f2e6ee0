package compile

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// A Sidecar that begins or ceases to hide a host changes what its proxies see of that host, and
// hides nothing that another listener shows.
func TestASidecarBeginsAndCeasesToHideAHost(t *testing.T) {
	all := model.ScopedHost{Namespace: "*", Host: "*"}
	hidden := aloneService("hidden", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
	shown := aloneService("shown", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
	sidecar := func(listeners ...model.EgressListener) []state.Update {
		return updatesOf([]model.Object{&model.Sidecar{Meta: aloneMeta(kinds.Sidecar, "s"), Egress: listeners}})
	}
	hides := func(hosts ...model.Host) model.EgressListener {
		l := model.EgressListener{Hosts: []model.ScopedHost{all}}
		for _, h := range hosts {
			l.Hidden = append(l.Hidden, model.ScopedHost{Namespace: "default", Host: h})
		}
		return l
	}
	requireFollowsUpdates(t, scope.Proxy{Namespace: "default", Name: "p"}, [][]state.Update{
		append(updatesOf([]model.Object{hidden, shown}), sidecar(hides())...),
		sidecar(hides(hidden.Host)),
		sidecar(hides(shown.Host)),
		sidecar(hides(hidden.Host), hides(shown.Host)),
		sidecar(hides(hidden.Host, shown.Host)),
		sidecar(hides()),
	})
}
