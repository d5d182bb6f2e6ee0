package state

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// attachedObjects are all that objects of the Gateway API come to.
func attachedObjects(s *Snapshot) []string {
	var all []string
	for g := range s.Gateways() {
		all = append(all, names([]*model.Gateway{g})...)
	}
	for v := range s.VirtualServices() {
		all = append(all, names([]*model.VirtualService{v})...)
	}
	for p := range s.backendPolicies.by[backendPoliciesByHost].under(nil) {
		all = append(all, names([]*model.BackendPolicy{p})...)
	}
	for o := range s.gatewayAPIStatuses.by[gatewayAPIStatusesByObject].under(nil) {
		all = append(all, names([]*model.GatewayAPIStatus{o})...)
	}
	slices.Sort(all)
	return all
}

// Whatever changes came in whatever steps, the objects of the Gateway API come to what they come to
// when all objects are there at once.
func TestAttachmentsEqualFromNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		writer, present := NewWriter(), map[source.Key]Update{}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			var batch []Update
			for range rapid.IntRange(1, 4).Draw(t, "changes") {
				u := drawAttachment(t)
				batch = append(batch, u)
				present[u.Key] = u
			}
			from := writer.Snapshot()
			next, d := writer.Apply(batch)
			var all []Update
			for _, u := range present {
				all = append(all, u)
			}
			fresh := NewWriter()
			expected, _ := fresh.Apply(all)
			requireSame(t, "what attachments come to", attachedObjects(expected), attachedObjects(next))
			require.Equal(t, fresh.attachments.attached.All(), writer.attachments.attached.All())
			require.Equal(t, fresh.attachments.leading.All(), writer.attachments.leading.All())
			if d.IsEmpty() {
				require.Equal(t, attachedObjects(from), attachedObjects(next))
			}
		}
	})
}

// drawAttachment draws an object that attachments depend on, or that one is gone.
func drawAttachment(t *rapid.T) Update {
	of := func(label string, values ...string) string { return rapid.SampledFrom(values).Draw(t, label) }
	namespace, name := of("namespace", "a", "b"), of("name", "x", "y")
	kind := rapid.SampledFrom([]kinds.Kind{
		kinds.GatewayClass, kinds.KubernetesGateway, kinds.KubernetesGateway, kinds.HTTPRoute, kinds.HTTPRoute,
		kinds.GRPCRoute, kinds.TCPRoute, kinds.TLSRoute, kinds.ReferenceGrant, kinds.Namespace, kinds.Service,
		kinds.Secret, kinds.AuthorizationPolicy,
		kinds.BackendTLSPolicy, kinds.BackendTLSPolicy, kinds.ConfigMap, kinds.ListenerSet, kinds.ListenerSet,
	}).Draw(t, "kind")
	m := model.Meta{Kind: kind, Namespace: namespace, Name: name}
	if kinds.Of(kind).ClusterScoped {
		m.Namespace, m.Name = "", map[bool]string{true: "istio", false: namespace}[kind == kinds.GatewayClass]
	}
	u := Update{Key: m.Key()}
	if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
		return u
	}
	var o model.Object
	switch kind {
	case kinds.GatewayClass:
		o = &model.GatewayClass{
			Meta: m, Controller: of("controller", model.GatewayController, "other"),
			Accepted:   model.Condition{Status: true, Reason: "Accepted"},
			Parameters: model.ObjectName{Namespace: "a", Name: of("parameters", "p", "q")},
		}
	case kinds.KubernetesGateway:
		o = drawKubernetesGateway(t, m)
	case kinds.HTTPRoute, kinds.GRPCRoute, kinds.TCPRoute, kinds.TLSRoute:
		o = drawAttachedRoute(t, m)
	case kinds.ReferenceGrant:
		o = &model.ReferenceGrant{
			Meta: m, From: []model.GrantFrom{{
				Group: kinds.GatewayAPIGroup, Kind: of("from", "HTTPRoute", "GRPCRoute", "Gateway", "ListenerSet"),
				Namespace: of("of", "a", "b"),
			}},
			To: []model.GrantTo{{Kind: of("to", "Service", "Secret", "ConfigMap"), Name: of("named", "", "x")}},
		}
	case kinds.Namespace:
		o = &model.Namespace{Meta: m, Labels: model.LabelsOf(map[string]string{
			"l": of("label", "1", "2"), kinds.RevisionLabel: of("revision", "1", "2"),
		})}
	case kinds.AuthorizationPolicy:
		o = &model.AuthorizationPolicy{
			Meta: m, DryRun: rapid.Bool().Draw(t, "dry run"),
			Selection: model.Selection{Gateways: []string{of("attached to", "x", "y")}},
		}
	case kinds.Service:
		o = &model.Service{
			Meta: m, Host: model.Resolve(name, namespace, "cluster.local"), ExportTo: model.Exports{All: true},
			Ports:    []model.ServicePort{{Name: "http", Port: rapid.SampledFrom([]uint16{80, 81}).Draw(t, "port")}},
			Selector: model.LabelsOf(map[string]string{of("selects", model.GatewayNameLabel, "app"): "x"}),
			Resolution: rapid.SampledFrom([]model.Resolution{
				model.EDS, model.EDS, model.StrictDNS, // an alias
			}).Draw(t, "resolution"),
			Balanced:  rapid.Bool().Draw(t, "balanced"),
			Balancers: rapid.SampledFrom([][]string{nil, {"192.0.2.1"}}).Draw(t, "balancers"),
		}
	case kinds.ListenerSet:
		m.Created = rapid.Int64Range(0, 1).Draw(t, "created")
		o = &model.ListenerSet{
			Meta: m, Parent: model.ObjectName{Namespace: of("parent of", "a", "b"), Name: "x"},
			Listeners: drawListeners(t),
		}
	case kinds.BackendTLSPolicy:
		o = drawBackendTLS(t, m)
	case kinds.ConfigMap:
		o = &model.CertificateBundle{Meta: m, Broken: of("broken", "", "holds no certificate"), Certificates: "c"}
	default:
		o = &model.Credential{Meta: m, Pair: &model.KeyPair{Key: model.NewSensitive("k")}}
	}
	u.Objects = []model.Object{o}
	return u
}

func drawKubernetesGateway(t *rapid.T, m model.Meta) *model.KubernetesGateway {
	ok := func(reason string) model.Condition { return model.Condition{Status: true, Reason: reason} }
	g := &model.KubernetesGateway{
		Meta: m, Class: rapid.SampledFrom([]string{"istio", "lateen", "nobody's"}).Draw(t, "class"),
		Service:  rapid.SampledFrom([]model.Host{"", "", "x.a.svc.cluster.local"}).Draw(t, "address"),
		Unusable: rapid.SampledFrom([]string{"", "", "a second address"}).Draw(t, "second address"),
		Accepted: ok("Accepted"), Listeners: drawListeners(t), Sets: drawSelector(t),
		Infrastructure: model.Infrastructure{Revision: rapid.SampledFrom([]string{"", "", "1"}).Draw(t, "revision")},
	}
	g.UID = "u"
	if rapid.Bool().Draw(t, "presents a certificate") {
		g.ResolvedRefs = ok("ResolvedRefs")
		g.Presents = model.ObjectName{Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "of"), Name: "x"}
	}
	if rapid.Bool().Draw(t, "verifies clients") {
		g.Clients = []model.ClientValidation{{
			Verifies: true, AnyClient: rapid.Bool().Draw(t, "any client"), ResolvedRefs: ok("ResolvedRefs"),
			Bundles: []model.ObjectName{{Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "of"), Name: "x"}},
		}}
	}
	return g
}

func drawSelector(t *rapid.T) model.NamespaceSelector {
	return rapid.SampledFrom([]model.NamespaceSelector{
		{All: true}, {Same: true}, {}, {AnyLabels: true},
		{Labels: []model.LabelRequirement{{Key: "l", Values: []string{"1"}}}},
	}).Draw(t, "from")
}

func drawListeners(t *rapid.T) []model.Listener {
	ok := func(reason string) model.Condition { return model.Condition{Status: true, Reason: reason} }
	var list []model.Listener
	for _, name := range []string{"one", "two"}[:rapid.IntRange(1, 2).Draw(t, "listeners")] {
		l := model.Listener{
			Name: name, Port: 80, Protocol: model.HTTP,
			Kinds: rapid.SampledFrom([][]kinds.Kind{
				{kinds.HTTPRoute}, {kinds.TCPRoute}, {kinds.TLSRoute}, {kinds.HTTPRoute, kinds.TCPRoute},
				{kinds.GRPCRoute, kinds.HTTPRoute},
			}).Draw(t, "kinds of routes"),
			Host:         rapid.SampledFrom([]model.Host{"*", "*.test", "a.test"}).Draw(t, "host"),
			Accepted:     model.Condition{Status: rapid.Bool().Draw(t, "open"), Reason: "Accepted"},
			From:         drawSelector(t),
			ResolvedRefs: ok("ResolvedRefs"), Conflicted: model.Condition{Reason: "NoConflicts"},
		}
		if rapid.Bool().Draw(t, "with TLS") {
			l.Port, l.TLS = 443, &model.ServerTLS{Mode: model.ServerSimple}
			l.Secrets = []model.ObjectName{{Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "of"), Name: "x"}}
		}
		list = append(list, l)
	}
	return list
}

func drawAttachedRoute(t *rapid.T, m model.Meta) *model.AttachedRoute {
	r := &model.AttachedRoute{
		Meta:     m,
		Accepted: model.Condition{Status: true, Reason: "Accepted"}, ResolvedRefs: model.Condition{Status: true},
		Hosts: rapid.SampledFrom([][]model.Host{nil, {"a.test"}, {"*.test", "b.other"}}).Draw(t, "hosts"),
	}
	for range rapid.IntRange(1, 2).Draw(t, "parents") {
		r.Parents = append(r.Parents, model.ParentRef{
			Group:     kinds.GatewayAPIGroup,
			Kind:      rapid.SampledFrom([]string{"Gateway", "Gateway", "ListenerSet", "Other"}).Draw(t, "kind"),
			Namespace: rapid.SampledFrom([]string{"", "a"}).Draw(t, "of"), Name: "x",
			Section: rapid.SampledFrom([]string{"", "", "one"}).Draw(t, "section"),
			Port:    rapid.SampledFrom([]uint16{0, 0, 443}).Draw(t, "port"),
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "Services") {
		of := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "Service of")
		r.Parents = append(r.Parents, model.ParentRef{
			Kind: "Service", Namespace: of, Name: "x", Host: model.Resolve("x", of, "cluster.local"),
			Port: rapid.SampledFrom([]uint16{0, 0, 80, 81}).Draw(t, "port"),
		})
	}
	to := model.ObjectName{Namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "backend of"), Name: "x"}
	d := model.Destination{Host: model.Resolve(to.Name, to.Namespace, "cluster.local"), Port: 80, Weight: 1}
	if m.Kind != kinds.HTTPRoute && m.Kind != kinds.GRPCRoute {
		r.TCP = []*model.TCPRoute{{Destinations: []model.Destination{d}}}
	} else {
		r.HTTP = []*model.HTTPRoute{{
			Matches: []*model.HTTPMatch{{}}, Destinations: []model.Destination{d},
			Mirrors: []model.Mirror{{Destination: d, Percent: 1}},
		}}
	}
	if rapid.Bool().Draw(t, "as a host") {
		r.Foreign = []model.ForeignHost{{Host: d.Host}}
	} else if to.Namespace != m.Namespace {
		r.Foreign = []model.ForeignHost{{Service: to, Host: d.Host}}
	}
	return r
}

func drawBackendTLS(t *rapid.T, m model.Meta) *model.BackendTLSPolicy {
	m.Created = rapid.Int64Range(0, 1).Draw(t, "created")
	p := &model.BackendTLSPolicy{
		Meta: m, TLS: model.ClientTLS{Mode: model.Simple, SNI: m.Name},
		Accepted: model.Condition{Status: true, Reason: "Accepted"}, ResolvedRefs: model.Condition{Status: true},
		Bundles: rapid.SampledFrom([][]string{nil, {"x"}, {"x", "y"}}).Draw(t, "bundles"),
	}
	for range rapid.IntRange(1, 2).Draw(t, "targets") {
		name := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "target")
		p.Targets = append(p.Targets, model.BackendTarget{
			Service: name, Host: model.Resolve(name, m.Namespace, "cluster.local"),
			Section: rapid.SampledFrom([]string{"", "", "http", "none"}).Draw(t, "section"),
		})
	}
	return p
}

// One route among 5,000 changes: one route is resolved, and the Gateway's status stays.
func TestOneRouteAmongThousandsCostsWhatOneCosts(t *testing.T) {
	lookups := func(routes int) uint64 {
		w := NewCountingWriter()
		w.Apply(attachedMesh(routes))
		before := w.Snapshot().Lookups()
		_, d := w.Apply([]Update{attachedTo(7, 81)})
		require.Len(t, d.VirtualServices, 1)
		require.Empty(t, d.Gateways)
		require.Len(t, d.GatewayAPIStatuses, 1, "the port that the route names is there no more")
		return w.Snapshot().Lookups() - before
	}
	few, many := lookups(10), lookups(5000)
	require.Less(t, many, few+100, "deeper trees alone may make a difference")
}

// attachedMesh is a Gateway with many routes, each with a host of its own.
func attachedMesh(routes int) []Update {
	m := model.Meta{Kind: kinds.KubernetesGateway, Namespace: "a", Name: "x"}
	g := &model.KubernetesGateway{
		Meta: m, Class: "istio", Accepted: model.Condition{Status: true},
		Listeners: []model.Listener{{
			Name: "http", Port: 80, Protocol: model.HTTP, Host: "*", Kinds: []kinds.Kind{kinds.HTTPRoute},
			From: model.NamespaceSelector{All: true}, Accepted: model.Condition{Status: true},
			ResolvedRefs: model.Condition{Status: true},
		}},
	}
	service := model.Meta{Kind: kinds.Service, Namespace: "a", Name: "s"}
	all := []Update{{Key: m.Key(), Objects: []model.Object{g}}, {
		Key: service.Key(), Objects: []model.Object{&model.Service{
			Meta: service, Host: "s.a.svc.cluster.local", Ports: []model.ServicePort{{Name: "http", Port: 80}},
			ExportTo: model.Exports{All: true},
		}},
	}}
	for i := range routes {
		all = append(all, attachedTo(i, 80))
	}
	return all
}

func attachedTo(i int, port uint16) Update {
	name := "r" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
	m := model.Meta{Kind: kinds.HTTPRoute, Namespace: "a", Name: name}
	return Update{Key: m.Key(), Objects: []model.Object{&model.AttachedRoute{
		Meta: m, Hosts: []model.Host{model.Host(name + ".test")},
		Accepted: model.Condition{Status: true}, ResolvedRefs: model.Condition{Status: true},
		Parents: []model.ParentRef{{Group: kinds.GatewayAPIGroup, Kind: "Gateway", Name: "x"}},
		HTTP: []*model.HTTPRoute{{
			Matches:      []*model.HTTPMatch{{}},
			Destinations: []model.Destination{{Host: "s.a.svc.cluster.local", Port: port, Weight: 1}},
		}},
	}}}
}
