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

// A class that starts from a base has what compiling from nothing gives it, where the two see
// different DestinationRules. Random lives hardly ever bring this.
func TestClassFromBaseSeesItsOwnRules(t *testing.T) {
	proxy := func(namespace, app string) scope.Proxy {
		p := sidecarIn(namespace)
		p.Labels = model.LabelsOf(map[string]string{"app": app})
		return p
	}
	a, b, other := proxy("a", "x"), proxy("b", "x"), proxy("a", "y")
	for name, c := range map[string]struct {
		rule        func(*model.DestinationRule)
		first, then scope.Proxy
	}{
		"exported to the first": {func(r *model.DestinationRule) {
			r.ExportTo = model.Exports{
				Namespaces: []string{"a"},
			}
		}, a, b},
		"exported to the next": {func(r *model.DestinationRule) {
			r.ExportTo = model.Exports{
				Namespaces: []string{"b"},
			}
		}, a, b},
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
			r := &model.DestinationRule{Meta: aloneMeta(kinds.DestinationRule, "r"), Host: s.Host, ExportTo: everywhere}
			r.Policy = &model.TrafficPolicy{Pool: &model.ConnectionPool{ConnectTimeout: 7 * time.Second}}
			c.rule(r)
			requireClassesDiffer(t, []model.Object{s, r}, c.first, c.then)
		})
	}
}

// A class that starts from a base has what compiling from nothing gives it, where only one of the
// two sees a VirtualService.
func TestClassFromBaseSeesItsOwnRoutes(t *testing.T) {
	a, b := sidecarIn("a"), sidecarIn("b")
	for name, exports := range map[string]model.Exports{
		"exported to the first": {Namespaces: []string{"a"}},
		"exported to the next":  {Namespaces: []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := aloneService("s", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
			v := &model.VirtualService{
				Meta:     aloneMeta(kinds.VirtualService, "v"),
				ExportTo: exports,
				Hosts:    []model.Host{s.Host},
				Gateways: []string{model.Mesh},
			}
			v.HTTP = []*model.HTTPRoute{{Redirect: &model.Redirect{Authority: "b.com"}}}
			requireClassesDiffer(t, []model.Object{s, v}, a, b)
		})
	}
}

// Where routes for another namespace's host are for the callers of their own namespace alone, a
// class that starts from a base of another namespace has its own.
func TestClassFromBaseHasTheRoutesOfItsNamespace(t *testing.T) {
	mesh := model.DefaultMesh()
	mesh.OwnHostsOnly = true
	config := state.Update{
		Key:     source.Key{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"},
		Objects: []model.Object{&mesh},
	}
	for _, namespace := range []string{"a", "b"} {
		s := aloneService("s", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
		v := &model.VirtualService{
			Meta:     aloneMeta(kinds.VirtualService, "v"),
			ExportTo: everywhere,
			Hosts:    []model.Host{s.Host, "nobody.test"},
			Gateways: []string{model.Mesh},
		}
		v.Namespace = namespace
		v.HTTP = []*model.HTTPRoute{{Redirect: &model.Redirect{Authority: "b.com"}}}
		w := state.NewWriter()
		w.Apply(append(updatesOf([]model.Object{s, v}), config))
		requireDiffer(t, w.Snapshot(), sidecarIn("a"), sidecarIn("b"))
	}
}

// Pods of a StatefulSet differ only in the labels that follow from their names. Where a selector
// selects one of them, each has a class of its own.
func TestPodsSelectedByNameHaveTheirOwnClass(t *testing.T) {
	s := aloneService("s", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
	objects := []model.Object{s}
	var pods []scope.Proxy
	for i, name := range []string{"db-0", "db-1"} {
		pod := sidecarIn("default")
		pod.Labels = model.LabelsOf(map[string]string{"app": "db", model.PodNameLabel: name})
		r := &model.DestinationRule{Meta: aloneMeta(kinds.DestinationRule, name), Host: s.Host, ExportTo: everywhere}
		r.Selector = model.LabelsOf(map[string]string{model.PodNameLabel: name})
		r.Policy = &model.TrafficPolicy{Pool: &model.ConnectionPool{ConnectTimeout: time.Duration(i+1) * time.Second}}
		objects, pods = append(objects, r), append(pods, pod)
	}
	requireClassesDiffer(t, objects, pods[0], pods[1])
	requireClassesDiffer(t, objects, pods[1], pods[0])
}

func sidecarIn(namespace string) scope.Proxy {
	return scope.Proxy{Namespace: namespace, Name: "p", Settings: scope.Settings{HTTPProxyPort: 15080}}
}

// requireClassesDiffer requires that the second proxy has what it has when it is the only one, and
// that this differs from what the first one has.
func requireClassesDiffer(t *testing.T, objects []model.Object, first, then scope.Proxy) {
	t.Helper()
	w := state.NewWriter()
	w.Apply(updatesOf(objects))
	requireDiffer(t, w.Snapshot(), first, then)
}

// requireDiffer is requireClassesDiffer in a snapshot.
func requireDiffer(t *testing.T, in *state.Snapshot, first, then scope.Proxy) {
	t.Helper()
	before := placeIn(t, in, first)
	var next resource.State
	before.comp.Join(Facts{Proxy: then}, func(_ *Member, at Placement) { next = at.State })
	require.NotEqual(t, dump(before.state), dump(next))
	require.Equal(t, dump(placeIn(t, in, then).state), dump(next))
}

// Proxies that differ in one setting are two classes, whoever comes first. Random lives hardly ever
// bring both.
func TestProxiesWithOtherSettingsAreOtherClasses(t *testing.T) {
	gateway := scope.Proxy{
		Type:      scope.Router,
		Namespace: "default",
		Name:      "gw",
		Labels:    gatewayLabels,
		Settings:  scope.Settings{HTTPProxyPort: 15080},
	}
	sidecar, all := gateway, gateway
	sidecar.Type = scope.Sidecar
	all.Settings.AllClusters = true
	elsewhere, remote := gateway, sidecar
	elsewhere.Namespace = "shop"
	own := elsewhere
	own.Settings.OwnGateways, remote.Settings.RemoteAddress = true, true
	intercepted := sidecar
	intercepted.Settings.Intercepted = true
	transparent := intercepted
	transparent.Settings.Transparent = true
	g, _ := aloneGateway(80, model.HTTP)
	objects := []model.Object{g, aloneService("s", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})}
	for _, pair := range [][2]scope.Proxy{
		{gateway, all}, {gateway, sidecar}, {elsewhere, own}, {sidecar, remote}, {intercepted, transparent},
	} {
		requireClassesDiffer(t, objects, pair[0], pair[1])
		requireClassesDiffer(t, objects, pair[1], pair[0])
	}
}

// The problems are the same whichever class comes first, in whatever namespace.
func TestClassFromBaseHasTheSameProblems(t *testing.T) {
	s := aloneService("s", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
	for name, tls := range map[string]*model.ClientTLS{
		"without an agent":   {Mode: model.IstioMutual},
		"without the Secret": {Mode: model.Simple, Credential: "c"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &model.DestinationRule{
				Meta:     aloneMeta(kinds.DestinationRule, "r"),
				Host:     s.Host,
				ExportTo: everywhere,
				Policy:   &model.TrafficPolicy{TLS: tls},
			}
			w := state.NewWriter()
			w.Apply(updatesOf([]model.Object{s, r}))
			a, b := scope.Proxy{Namespace: "a", Name: "p"}, scope.Proxy{Namespace: "b", Name: "p"}
			forth, back := placeIn(t, w.Snapshot(), a), placeIn(t, w.Snapshot(), b)
			forth.comp.Join(Facts{Proxy: b}, func(*Member, Placement) {})
			back.comp.Join(Facts{Proxy: a}, func(*Member, Placement) {})
			require.NotEmpty(t, forth.comp.problems())
			require.Equal(t, forth.comp.problems(), back.comp.problems())
		})
	}
}
