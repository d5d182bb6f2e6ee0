package scope_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

type objects []state.Update

func (o *objects) add(m model.Meta, v model.Object) {
	*o = append(*o, state.Update{Key: m.Key(), Objects: []model.Object{v}})
}

func (o *objects) service(namespace, name string, export model.Exports) {
	m := model.Meta{Kind: kinds.Service, Namespace: namespace, Name: name}
	o.add(m, &model.Service{
		Meta: m, Host: model.Resolve(
			name, namespace, "cluster.local",
		), ExportTo: export, Selector: model.LabelsOf(map[string]string{"app": name}),
		Ports: []model.ServicePort{{Name: "http", Port: 80, Protocol: model.HTTP, Target: 8080}},
	})
}

func (o *objects) sidecar(namespace, name string, selector model.Labels, hosts ...model.ScopedHost) {
	m := model.Meta{Kind: kinds.Sidecar, Namespace: namespace, Name: name}
	o.add(m, &model.Sidecar{Meta: m, Selector: selector, Egress: []model.EgressListener{{Hosts: hosts}}})
}

func (o *objects) rule(namespace, name string, host model.Host, selector model.Labels) {
	m := model.Meta{Kind: kinds.DestinationRule, Namespace: namespace, Name: name}
	o.add(m, &model.DestinationRule{Meta: m, Host: host, Selector: selector, ExportTo: model.Exports{All: true}})
}

func (o *objects) routes(namespace, name string, host, to model.Host, gateways ...string) {
	m := model.Meta{Kind: kinds.VirtualService, Namespace: namespace, Name: name}
	o.add(m, &model.VirtualService{
		Meta: m, Hosts: []model.Host{host}, Gateways: gateways, ExportTo: model.Exports{All: true},
		HTTP: []*model.HTTPRoute{{Destinations: []model.Destination{{Host: to}}}},
	})
}

func (o objects) seenBy(p scope.Proxy) *scope.Scope {
	w := state.NewWriter()
	now, _ := w.Apply(o)
	class := scope.NewClassifier().Classify(now, p)
	return scope.New(now, &class)
}

var (
	everyone = model.Exports{All: true}
	noLabels = model.Labels{}
	appA     = model.LabelsOf(map[string]string{"app": "a"})
	inShop   = scope.Proxy{Namespace: "shop", Name: "p", Labels: appA}
)

func visible(s *scope.Scope) []string {
	found := map[string]bool{}
	for h := range s.Hosts() {
		if s.Service(h) != nil {
			found[string(h)] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func TestExportTo(t *testing.T) {
	var o objects
	o.service("shop", "own", model.Exports{Own: true})
	o.service("other", "all", everyone)
	o.service("other", "private", model.Exports{Own: true})
	o.service("other", "shown", model.Exports{Namespaces: []string{"shop"}})
	o.service("shop", "hidden", model.Exports{None: true})
	require.Equal(t, []string{
		"all.other.svc.cluster.local", "own.shop.svc.cluster.local", "shown.other.svc.cluster.local",
	}, visible(o.seenBy(inShop)))
}

func TestTheNarrowestSidecarIsInForce(t *testing.T) {
	var o objects
	for _, n := range []string{"shop", "other", "third"} {
		o.service(n, "s", everyone)
	}
	o.sidecar("istio-system", "mesh", noLabels, model.ScopedHost{Namespace: ".", Host: "*"})
	require.Equal(t, []string{
		"s.shop.svc.cluster.local",
	}, visible(o.seenBy(inShop)), "the root namespace's, each namespace for itself")

	o.sidecar("shop", "wide", noLabels, model.ScopedHost{Namespace: "other", Host: "*"})
	require.Equal(t, []string{"s.other.svc.cluster.local"}, visible(o.seenBy(inShop)))

	o.sidecar("shop", "zz-selected", appA, model.ScopedHost{Namespace: "*", Host: "s.third.svc.cluster.local"})
	require.Equal(t, []string{"s.third.svc.cluster.local"}, visible(o.seenBy(inShop)))
	require.Equal(
		t,
		[]string{"s.other.svc.cluster.local"},
		visible(o.seenBy(scope.Proxy{Namespace: "shop", Name: "q"})),
	)
}

func TestADestinationOfAVisibleRouteIsSeen(t *testing.T) {
	var o objects
	o.service("shop", "a", everyone)
	o.service("other", "b", everyone)
	o.sidecar("shop", "wide", noLabels, model.ScopedHost{Namespace: "shop", Host: "*"})
	require.Equal(t, []string{"a.shop.svc.cluster.local"}, visible(o.seenBy(inShop)))
	o.routes("shop", "v", "a.shop.svc.cluster.local", "b.other.svc.cluster.local", model.Mesh)
	require.Equal(t, []string{"a.shop.svc.cluster.local", "b.other.svc.cluster.local"}, visible(o.seenBy(inShop)))
}

func TestAGatewaySeesWhatItsRoutesLeadTo(t *testing.T) {
	var o objects
	o.service("shop", "a", everyone)
	o.service("shop", "b", everyone)
	m := model.Meta{Kind: kinds.Gateway, Namespace: "istio-system", Name: "gw"}
	o.add(m, &model.Gateway{Meta: m, Selector: appA})
	o.routes("shop", "v", "example.com", "b.shop.svc.cluster.local", "istio-system/gw")
	gateway := scope.Proxy{Type: scope.Router, Namespace: "istio-system", Name: "gw", Labels: appA}
	require.Equal(t, []string{"b.shop.svc.cluster.local"}, visible(o.seenBy(gateway)))
	gateway.Labels = noLabels
	require.Empty(t, visible(o.seenBy(gateway)), "the Gateway does not select it")
}

// PILOT_SCOPE_GATEWAY_TO_NAMESPACE: a team's Gateway does not land on another team's Pods.
func TestAGatewayOfAnotherNamespaceMayBeKeptOut(t *testing.T) {
	for _, c := range []struct {
		kind kinds.Kind
		own  bool
		want bool
	}{
		{kinds.Gateway, false, true},
		{kinds.Gateway, true, false},
		{kinds.Ingress, true, true}, // it names a class, not Pods
	} {
		var o objects
		m := model.Meta{Kind: c.kind, Namespace: "shop", Name: "gw"}
		gateway := &model.Gateway{Meta: m, Selector: appA}
		o.add(m, gateway)
		shared := scope.Proxy{Type: scope.Router, Namespace: "istio-system", Name: "gw", Labels: appA}
		shared.Settings.OwnGateways = c.own
		require.Equal(t, c.want, o.seenBy(shared).Applies(gateway), "%+v", c)
		shared.Namespace = "shop"
		require.True(t, o.seenBy(shared).Applies(gateway), "of its own namespace: %+v", c)
	}
}

func TestWhichDestinationRuleIsInForce(t *testing.T) {
	name := func(o objects) string {
		s := o.seenBy(inShop)
		if r := s.DestinationRule(s.Service("s.other.svc.cluster.local")); r != nil {
			return r.Namespace + "/" + r.Name
		}
		return ""
	}
	var o objects
	o.service("other", "s", everyone)
	require.Empty(t, name(o))
	o.rule("istio-system", "root", "*", noLabels)
	require.Equal(t, "istio-system/root", name(o))
	o.rule("other", "wild", "*.other.svc.cluster.local", noLabels)
	require.Equal(t, "other/wild", name(o))
	o.rule("other", "exact", "s.other.svc.cluster.local", noLabels)
	require.Equal(t, "other/exact", name(o))
	o.rule("shop", "client", "*", noLabels)
	require.Equal(t, "shop/client", name(o), "the client's namespace comes first")
	o.rule("shop", "selected", "*", appA)
	require.Equal(t, "shop/selected", name(o))
	o.rule("third", "foreign", "s.other.svc.cluster.local", noLabels)
	require.Equal(t, "shop/selected", name(o))
}

func TestTheMostSpecificRoutesAreInForce(t *testing.T) {
	var o objects
	o.routes("shop", "all", "*.example.com", "x.com", model.Mesh)
	o.routes("shop", "one", "a.example.com", "x.com", model.Mesh)
	o.routes("shop", "gate", "b.example.com", "x.com", "shop/gw")
	s := o.seenBy(inShop)
	require.Equal(t, "one", s.VirtualService("a.example.com", 80, scope.HTTPRoutes).Name)
	require.Equal(
		t, "all", s.VirtualService("b.example.com", 80, scope.HTTPRoutes).Name,
		"routes of gateways are not for the mesh",
	)
	require.Nil(t, s.VirtualService("example.com", 80, scope.HTTPRoutes))
}

// Labels that nothing selects by split no class; those that something selects by do.
func TestClassesAreMadeOfMatchResults(t *testing.T) {
	var o objects
	o.service("shop", "a", everyone)
	o.sidecar(
		"shop",
		"s",
		model.LabelsOf(map[string]string{"tier": "front"}),
		model.ScopedHost{Namespace: "*", Host: "*"},
	)
	w := state.NewWriter()
	now, _ := w.Apply(o)
	c := scope.NewClassifier()
	class := func(labels map[string]string) scope.Class {
		return c.Classify(now, scope.Proxy{Namespace: "shop", Name: labels["pod"], Labels: model.LabelsOf(labels)})
	}
	one := class(map[string]string{"app": "a", "pod-template-hash": "1", "pod": "a-1"})
	require.Equal(t, one, class(map[string]string{"app": "a", "pod-template-hash": "2", "pod": "a-2"}))
	require.NotEqual(t, one, class(map[string]string{"app": "a", "tier": "front"}))
	require.NotEqual(t, one, class(map[string]string{"app": "b"}), "it serves no service")
	require.Equal(t, 1, one.Inbound.Len())
}

// Workloads of a namespace that serve the same ports are of one class, whatever their services are
// called, in what order they come and which ports of their own they have. What services contest of
// a port is told of those that do.
func TestWorkloadsThatServeTheSamePortsAreOneClass(t *testing.T) {
	http := func(port, target uint16) model.ServicePort {
		return model.ServicePort{Port: port, Target: target, Protocol: model.HTTP}
	}
	var o objects
	serve := func(app, name string, ports ...model.ServicePort) {
		m := model.Meta{Kind: kinds.Service, Namespace: "shop", Name: name}
		selector := model.LabelsOf(map[string]string{"app": app})
		o.add(m, &model.Service{
			Meta:     m,
			Host:     model.Resolve(name, "shop", "cluster.local"),
			ExportTo: everyone,
			Selector: selector,
			Ports:    ports,
		})
	}
	serve("one", "one", http(80, 8080), http(90, 9090))
	serve("other", "other", http(9090, 9090), http(81, 8080))
	serve("several", "s2", http(80, 8080))
	serve("several", "s1", http(80, 8080), http(81, 9090), http(82, 8080))
	serve("tcp", "tcp", http(80, 8080), model.ServicePort{Port: 90, Target: 9090, Protocol: model.TCP})
	serve("less", "less", http(80, 8080))
	serve("contested", "c1", http(80, 8080), http(90, 9090))
	serve("contested", "c2", model.ServicePort{Port: 70, Target: 8080, Protocol: model.TCP})
	now, _ := state.NewWriter().Apply(o)
	c := scope.NewClassifier()
	proxy := func(typ scope.ProxyType, app string) scope.Proxy {
		labels := model.LabelsOf(map[string]string{"app": app})
		return scope.Proxy{Type: typ, Namespace: "shop", Name: app, Labels: labels}
	}
	class := func(typ scope.ProxyType, app string) scope.Class { return c.Classify(now, proxy(typ, app)) }
	one := class(scope.Sidecar, "one")
	require.Equal(t, []scope.Inbound{
		{Port: 8080, Protocol: model.HTTP}, {Port: 9090, Protocol: model.HTTP},
	}, slices.Collect(one.Inbound.All()))
	require.Equal(t, one, class(scope.Sidecar, "other"))
	require.Equal(t, one, class(scope.Sidecar, "several"))
	require.NotEqual(t, one, class(scope.Sidecar, "tcp"))
	require.NotEqual(t, one, class(scope.Sidecar, "less"))

	contested := class(scope.Sidecar, "contested")
	require.Equal(t, one.Inbound, contested.Inbound, "the first counts")
	require.Equal(t, []scope.PortConflict{{
		Port: 8080, First: scope.Claim{Kind: kinds.Service, Name: "c1", Port: 80, Protocol: model.HTTP},
		Next: scope.Claim{Kind: kinds.Service, Name: "c2", Port: 70, Protocol: model.TCP},
	}}, slices.Collect(contested.PortConflicts.All()))

	require.Nil(t, one.PortServices, "a stock Envoy does not show services")
	istios := func(app string) scope.Class {
		p := proxy(scope.Sidecar, app)
		p.Settings.IstioFilters = true
		return c.Classify(now, p)
	}
	require.Equal(t, []scope.PortService{
		{Port: 8080, Host: "s1.shop.svc.cluster.local", Name: "s1"},
		{Port: 8080, Host: "s2.shop.svc.cluster.local", Name: "s2"},
		{Port: 9090, Host: "s1.shop.svc.cluster.local", Name: "s1"},
	}, slices.Collect(istios("several").PortServices.All()), "each once, however many of its ports lead there")
	require.NotEqual(t, istios("one"), istios("other"), "Istio's filters show which service a port is of")

	gateway := class(scope.Router, "one")
	require.Equal(t, []scope.Bind{
		{Service: 80, Port: 8080}, {Service: 90, Port: 9090},
	}, slices.Collect(gateway.Binds.All()))
	require.Equal(t, gateway, class(scope.Router, "tcp"), "what a gateway speaks its servers say")
	require.NotEqual(t, gateway, class(scope.Router, "several"))
	require.Equal(t, map[uint16]uint16{80: 80, 81: 8080, 9090: 9090}, func() map[uint16]uint16 {
		other, bound := class(scope.Router, "other"), map[uint16]uint16{}
		for _, port := range []uint16{80, 81, 9090} {
			bound[port] = other.BoundPort(port)
		}
		return bound
	}())
}

func TestTheMostSpecificRuleComesBeforeOneThatSelects(t *testing.T) {
	var o objects
	o.service("other", "s", everyone)
	o.rule("shop", "wild", "*", appA)
	o.rule("shop", "exact", "s.other.svc.cluster.local", noLabels)
	s := o.seenBy(inShop)
	require.Equal(t, "exact", s.DestinationRule(s.Service("s.other.svc.cluster.local")).Name)
}

// The mesh-wide rule of the root namespace is no rule of the client's, where the client is a
// gateway in it.
func TestTheMeshWideRuleDoesNotHideThatOfAService(t *testing.T) {
	var o objects
	o.service("other", "s", everyone)
	o.rule("istio-system", "root", "*", noLabels)
	o.rule("other", "exact", "s.other.svc.cluster.local", noLabels)
	inForce := func() string {
		s := o.seenBy(scope.Proxy{Namespace: "istio-system", Name: "p"})
		return s.DestinationRule(s.Service("s.other.svc.cluster.local")).Name
	}
	require.Equal(t, "exact", inForce())
	m := model.Meta{Kind: kinds.DestinationRule, Namespace: "istio-system", Name: "private"}
	o.add(m, &model.DestinationRule{Meta: m, Host: "*.svc.cluster.local", ExportTo: model.Exports{Own: true}})
	require.Equal(t, "private", inForce(), "its own namespace has it for itself")
}

func TestRoutesForAWildcardAreInForceForAListedHost(t *testing.T) {
	var o objects
	o.routes("shop", "all", "*.example.com", "x.com", model.Mesh)
	o.routes("shop", "other", "*.example.org", "x.com", model.Mesh)
	o.sidecar("shop", "s", noLabels, model.ScopedHost{Namespace: "shop", Host: "a.example.com"})
	s := o.seenBy(inShop)
	require.NotNil(t, s.VirtualService("a.example.com", 80, scope.HTTPRoutes))
	require.Nil(t, s.VirtualService("a.example.org", 80, scope.HTTPRoutes))
}

// Rules of one namespace for one host and the same workloads are one: of each subset and of the
// policy the first counts.
func TestRulesForOneHostAreMerged(t *testing.T) {
	var o objects
	o.service("other", "s", everyone)
	rule := func(name string, export model.Exports, policy *model.TrafficPolicy, subsets ...string) {
		m := model.Meta{Kind: kinds.DestinationRule, Namespace: "other", Name: name}
		r := &model.DestinationRule{Meta: m, Host: "s.other.svc.cluster.local", ExportTo: export, Policy: policy}
		for _, s := range subsets {
			r.Subsets = append(
				r.Subsets,
				model.Subset{Name: s, Labels: model.LabelsOf(map[string]string{"rule": name})},
			)
		}
		o.add(m, r)
	}
	first, second := &model.TrafficPolicy{LB: &model.LoadBalancer{}}, &model.TrafficPolicy{}
	rule("c", everyone, second, "v2", "v3")
	rule("b", everyone, first, "v2")
	rule("a", everyone, nil, "v1")
	rule("0", model.Exports{Own: true}, second, "v0")

	s := o.seenBy(inShop)
	r := s.DestinationRule(s.Service("s.other.svc.cluster.local"))
	require.Equal(t, "a", r.Name)
	require.Same(t, first, r.Policy)
	require.Equal(t, []model.Subset{
		{Name: "v1", Labels: model.LabelsOf(map[string]string{"rule": "a"})},
		{Name: "v2", Labels: model.LabelsOf(map[string]string{"rule": "b"})},
		{Name: "v3", Labels: model.LabelsOf(map[string]string{"rule": "c"})},
	}, r.Subsets)
}

// TestATelemetryOfEachLevelIsInForce: one for the mesh, one for the namespace, and all that select
// the workload.
func TestATelemetryOfEachLevelIsInForce(t *testing.T) {
	var o objects
	add := func(namespace, name string, selector model.Labels) {
		m := model.Meta{Kind: kinds.Telemetry, Namespace: namespace, Name: name}
		o.add(m, &model.Telemetry{Meta: m, Selection: model.Selection{Selector: selector}})
	}
	add("istio-system", "mesh", noLabels)
	add("shop", "second", noLabels)
	add("shop", "first", noLabels)
	add("shop", "selects", appA)
	add("shop", "selects-too", appA)
	add("other", "foreign", noLabels)
	var found []string
	for _, telemetry := range o.seenBy(inShop).Telemetries() {
		found = append(found, telemetry.Name)
	}
	require.Equal(t, []string{"mesh", "first", "selects", "selects-too"}, found)
}

// TestRoutesOfOtherNamespacesCanBeForbidden: with the setting, calls to a host go by routes of the
// caller's namespace, the root namespace and the host's own alone.
func TestRoutesOfOtherNamespacesCanBeForbidden(t *testing.T) {
	const host model.Host = "s.other.svc.cluster.local"
	for _, onlyOwn := range []bool{false, true} {
		for _, of := range []string{"shop", "other", "istio-system", "third"} {
			for _, named := range []model.Host{host, "*.other.svc.cluster.local", "nobody.test"} {
				var o objects
				mesh := model.DefaultMesh()
				mesh.OwnHostsOnly = onlyOwn
				o.add(model.Meta{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"}, &mesh)
				o.service("other", "s", everyone)
				o.routes(of, "r", named, host, model.Mesh)
				called := host
				if named == "nobody.test" {
					called = named
				}
				has := func(s *scope.Scope) bool { return s.VirtualService(called, 80, scope.HTTPRoutes) != nil }
				s := o.seenBy(inShop)
				in := !onlyOwn || of == "shop" || of == "istio-system" || of == "other" && called == host
				require.Equal(t, in, has(s), "%v %s %s", onlyOwn, of, named)
				s.Cache = scope.NewLookupCache()
				require.Equal(t, in, has(s), "%v %s %s, cached", onlyOwn, of, named)
			}
		}
	}
}

// TestGatewaysDoNotSeeTheirOwnMachine: a host whose endpoints are on the machine of whoever calls
// is for sidecars alone.
func TestGatewaysDoNotSeeTheirOwnMachine(t *testing.T) {
	m := model.Meta{Kind: kinds.ServiceEntry, Namespace: "shop", Name: "near"}
	near := &model.Service{
		Meta: m, Host: "near.test", ExportTo: everyone, Resolution: model.EDS,
		Ports:     []model.ServicePort{{Name: "http", Port: 80, Protocol: model.HTTP, Target: 80}},
		Endpoints: []model.Endpoint{{Address: "127.0.0.1", Port: 80, PortName: "http"}},
	}
	for _, own := range []bool{false, true} {
		entry := *near
		entry.OwnMachine = own
		var o objects
		o.add(m, &entry)
		require.NotNil(t, o.seenBy(inShop).Service("near.test"))
		gateway := scope.Proxy{Type: scope.Router, Namespace: "shop", Name: "g", Labels: appA}
		gateway.Settings.AllClusters = true
		require.Equal(t, own, o.seenBy(gateway).Service("near.test") == nil)
	}
}
