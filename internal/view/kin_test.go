package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/world"
)

// A class that begins as its kin has what compiling from nothing gives it, where the two see a DestinationRule otherwise. Random
// lives hardly ever bring these.
func TestKinThatSeeARuleOtherwise(t *testing.T) {
	proxy := func(namespace, app string) scope.Proxy {
		return scope.Proxy{
			Namespace: namespace, Name: "p", Labels: model.LabelsOf(map[string]string{"app": app}), Settings: scope.Settings{HTTPProxyPort: 15080},
		}
	}
	a, b, other := proxy("a", "x"), proxy("b", "x"), proxy("a", "y")
	for name, c := range map[string]struct {
		rule        func(*model.DestinationRule)
		first, then scope.Proxy
	}{
		"exported to the first":    {func(r *model.DestinationRule) { r.ExportTo = model.Exports{Namespaces: []string{"a"}} }, a, b},
		"exported to the next":     {func(r *model.DestinationRule) { r.ExportTo = model.Exports{Namespaces: []string{"b"}} }, a, b},
		"of the first's namespace": {func(r *model.DestinationRule) { r.Namespace = "a" }, a, b},
		"of the next's namespace":  {func(r *model.DestinationRule) { r.Namespace = "b" }, a, b},
		"for the first workload of a namespace": {
			func(r *model.DestinationRule) { r.Namespace, r.Selector = "a", a.Labels }, a, other,
		},
		"for the next workload of a namespace": {
			func(r *model.DestinationRule) { r.Namespace, r.Selector = "a", other.Labels }, a, other,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := aloneService("s", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
			r := &model.DestinationRule{Meta: aloneMeta(source.DestinationRule, "r"), Host: s.Host, ExportTo: everywhere}
			r.Policy = &model.TrafficPolicy{Pool: &model.ConnectionPool{ConnectTimeout: 7 * time.Second}}
			c.rule(r)
			w := world.NewWriter()
			w.Apply(updatesOf([]model.Object{s, r}))

			first := placeIn(t, w.World(), c.first)
			var next State
			first.comp.Join(Facts{Proxy: c.then}, func(_ *Member, at Placement) { next = at.State })
			require.NotEqual(t, dump(first.state), dump(next), "the rule is in force for one of the two")
			require.Equal(t, dump(placeIn(t, w.World(), c.then).state), dump(next))
		})
	}
}

// Proxies that differ in one thing that they ask for alone are two classes, whoever comes first. Random lives hardly ever bring both.
func TestProxiesThatAskForOtherThings(t *testing.T) {
	gateway := scope.Proxy{Type: scope.Router, Namespace: "default", Name: "gw", Labels: gatewayLabels, Settings: scope.Settings{HTTPProxyPort: 15080}}
	sidecar, all := gateway, gateway
	sidecar.Type = scope.Sidecar
	all.Settings.AllClusters = true
	g, _ := aloneGateway(80, model.HTTP)
	w := world.NewWriter()
	w.Apply(updatesOf([]model.Object{g, aloneService("s", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})}))
	for _, order := range [][2]scope.Proxy{{gateway, all}, {all, gateway}, {gateway, sidecar}, {sidecar, gateway}} {
		first := placeIn(t, w.World(), order[0])
		var next State
		first.comp.Join(Facts{Proxy: order[1]}, func(_ *Member, at Placement) { next = at.State })
		require.NotEqual(t, dump(first.state), dump(next))
		require.Equal(t, dump(placeIn(t, w.World(), order[1]).state), dump(next))
	}
}

// What is wrong is the same whichever class comes first, in whatever namespace.
func TestKinOfAnotherNamespaceHaveTheSameProblems(t *testing.T) {
	s := aloneService("s", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
	for name, tls := range map[string]*model.ClientTLS{
		"without an agent":   {Mode: model.IstioMutual},
		"without the Secret": {Mode: model.Simple, Credential: "c"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &model.DestinationRule{
				Meta: aloneMeta(source.DestinationRule, "r"), Host: s.Host, ExportTo: everywhere, Policy: &model.TrafficPolicy{TLS: tls},
			}
			w := world.NewWriter()
			w.Apply(updatesOf([]model.Object{s, r}))
			a, b := scope.Proxy{Namespace: "a", Name: "p"}, scope.Proxy{Namespace: "b", Name: "p"}
			forth, back := placeIn(t, w.World(), a), placeIn(t, w.World(), b)
			forth.comp.Join(Facts{Proxy: b}, func(*Member, Placement) {})
			back.comp.Join(Facts{Proxy: a}, func(*Member, Placement) {})
			require.NotEmpty(t, forth.comp.conflicts())
			require.Equal(t, forth.comp.conflicts(), back.comp.conflicts())
		})
	}
}
