package scope_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/world"
)

type objects []world.Update

func (o *objects) add(m model.Meta, v model.Object) {
	*o = append(*o, world.Update{Key: m.Key(), Objects: []model.Object{v}})
}

func (o *objects) service(namespace, name string, export model.Exports) {
	m := model.Meta{Kind: source.Service, Namespace: namespace, Name: name}
	o.add(m, &model.Service{
		Meta: m, Host: model.Resolve(name, namespace, "cluster.local"), ExportTo: export, Selector: model.LabelsOf(map[string]string{"app": name}),
		Ports: []model.ServicePort{{Name: "http", Port: 80, Protocol: model.HTTP, Target: 8080}},
	})
}

func (o *objects) sidecar(namespace, name string, selector model.Labels, hosts ...model.ScopedHost) {
	m := model.Meta{Kind: source.Sidecar, Namespace: namespace, Name: name}
	o.add(m, &model.Sidecar{Meta: m, Selector: selector, Egress: []model.EgressListener{{Hosts: hosts}}})
}

func (o *objects) rule(namespace, name string, host model.Host, selector model.Labels) {
	m := model.Meta{Kind: source.DestinationRule, Namespace: namespace, Name: name}
	o.add(m, &model.DestinationRule{Meta: m, Host: host, Selector: selector, ExportTo: model.Exports{All: true}})
}

func (o *objects) routes(namespace, name string, host, to model.Host, gateways ...string) {
	m := model.Meta{Kind: source.VirtualService, Namespace: namespace, Name: name}
	o.add(m, &model.VirtualService{
		Meta: m, Hosts: []model.Host{host}, Gateways: gateways, ExportTo: model.Exports{All: true},
		HTTP: []*model.HTTPRoute{{Destinations: []model.Destination{{Host: to}}}},
	})
}

func (o objects) seenBy(p scope.Proxy) *scope.Scope {
	w := world.NewWriter()
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
	require.Equal(t, []string{"all.other.svc.cluster.local", "own.shop.svc.cluster.local", "shown.other.svc.cluster.local"}, visible(o.seenBy(inShop)))
}

func TestTheNarrowestSidecarIsInForce(t *testing.T) {
	var o objects
	for _, n := range []string{"shop", "other", "third"} {
		o.service(n, "s", everyone)
	}
	o.sidecar("istio-system", "mesh", noLabels, model.ScopedHost{Namespace: ".", Host: "*"})
	require.Equal(t, []string{"s.shop.svc.cluster.local"}, visible(o.seenBy(inShop)), "the root namespace's, each namespace for itself")

	o.sidecar("shop", "wide", noLabels, model.ScopedHost{Namespace: "other", Host: "*"})
	require.Equal(t, []string{"s.other.svc.cluster.local"}, visible(o.seenBy(inShop)))

	o.sidecar("shop", "zz-selected", appA, model.ScopedHost{Namespace: "*", Host: "s.third.svc.cluster.local"})
	require.Equal(t, []string{"s.third.svc.cluster.local"}, visible(o.seenBy(inShop)))
	require.Equal(t, []string{"s.other.svc.cluster.local"}, visible(o.seenBy(scope.Proxy{Namespace: "shop", Name: "q"})))
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
	m := model.Meta{Kind: source.Gateway, Namespace: "istio-system", Name: "gw"}
	o.add(m, &model.Gateway{Meta: m, Selector: appA})
	o.routes("shop", "v", "example.com", "b.shop.svc.cluster.local", "istio-system/gw")
	gateway := scope.Proxy{Type: scope.Router, Namespace: "istio-system", Name: "gw", Labels: appA}
	require.Equal(t, []string{"b.shop.svc.cluster.local"}, visible(o.seenBy(gateway)))
	gateway.Labels = noLabels
	require.Empty(t, visible(o.seenBy(gateway)), "the Gateway does not select it")
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
	require.Equal(t, "one", s.VirtualService("a.example.com").Name)
	require.Equal(t, "all", s.VirtualService("b.example.com").Name, "routes of gateways are not for the mesh")
	require.Nil(t, s.VirtualService("example.com"))
}

// Labels that nothing selects by split no class; those that something selects by do.
func TestClassesAreMadeOfMatchResults(t *testing.T) {
	var o objects
	o.service("shop", "a", everyone)
	o.sidecar("shop", "s", model.LabelsOf(map[string]string{"tier": "front"}), model.ScopedHost{Namespace: "*", Host: "*"})
	w := world.NewWriter()
	now, _ := w.Apply(o)
	c := scope.NewClassifier()
	class := func(labels map[string]string) scope.Class {
		return c.Classify(now, scope.Proxy{Namespace: "shop", Name: labels["pod"], Labels: model.LabelsOf(labels)})
	}
	one := class(map[string]string{"app": "a", "pod-template-hash": "1", "pod": "a-1"})
	require.Equal(t, one, class(map[string]string{"app": "a", "pod-template-hash": "2", "pod": "a-2"}))
	require.NotEqual(t, one, class(map[string]string{"app": "a", "tier": "front"}))
	require.NotEqual(t, one, class(map[string]string{"app": "b"}), "it serves no service")
	require.Equal(t, 1, one.Targets.Len())
}

func TestTheMostSpecificRuleComesBeforeOneThatSelects(t *testing.T) {
	var o objects
	o.service("other", "s", everyone)
	o.rule("shop", "wild", "*", appA)
	o.rule("shop", "exact", "s.other.svc.cluster.local", noLabels)
	s := o.seenBy(inShop)
	require.Equal(t, "exact", s.DestinationRule(s.Service("s.other.svc.cluster.local")).Name)
}

// The mesh-wide rule of the root namespace is no rule of the client's, where the client is a gateway in it.
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
	m := model.Meta{Kind: source.DestinationRule, Namespace: "istio-system", Name: "private"}
	o.add(m, &model.DestinationRule{Meta: m, Host: "*.svc.cluster.local", ExportTo: model.Exports{Own: true}})
	require.Equal(t, "private", inForce(), "its own namespace has it for itself")
}

func TestRoutesForAWildcardAreInForceForAListedHost(t *testing.T) {
	var o objects
	o.routes("shop", "all", "*.example.com", "x.com", model.Mesh)
	o.routes("shop", "other", "*.example.org", "x.com", model.Mesh)
	o.sidecar("shop", "s", noLabels, model.ScopedHost{Namespace: "shop", Host: "a.example.com"})
	s := o.seenBy(inShop)
	require.NotNil(t, s.VirtualService("a.example.com"))
	require.Nil(t, s.VirtualService("a.example.org"))
}

// Rules of one namespace for one host and the same workloads are one: of each subset and of the policy the first counts.
func TestRulesForOneHostAreMerged(t *testing.T) {
	var o objects
	o.service("other", "s", everyone)
	rule := func(name string, export model.Exports, policy *model.TrafficPolicy, subsets ...string) {
		m := model.Meta{Kind: source.DestinationRule, Namespace: "other", Name: name}
		r := &model.DestinationRule{Meta: m, Host: "s.other.svc.cluster.local", ExportTo: export, Policy: policy}
		for _, s := range subsets {
			r.Subsets = append(r.Subsets, model.Subset{Name: s, Labels: model.LabelsOf(map[string]string{"rule": name})})
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
