package meshlife

import (
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// bundles are ConfigMaps with authorities.
const bundles kinds.Kind = "CertificateBundle"

// attachmentKinds are the kinds of the Gateway API. They are no part of Kinds: what they come to
// depends on other objects, which only a state resolves.
var attachmentKinds = []kinds.Kind{
	kinds.KubernetesGateway, kinds.KubernetesGateway, kinds.HTTPRoute, kinds.HTTPRoute, kinds.GRPCRoute,
	kinds.TCPRoute, kinds.TLSRoute, kinds.ReferenceGrant, kinds.BackendTLSPolicy, bundles, kinds.ListenerSet,
	kinds.GatewayClass,
}

// classes are the names of the GatewayClasses that there may be, and that Gateways name.
var classes = []string{"istio", "other"}

// Attach draws a change of an object of the Gateway API: that it comes, goes, or is another one.
func (h *History) Attach(t *rapid.T) Change {
	kind := one(t, "kind", attachmentKinds...)
	k := source.Key{Kind: kind}
	if kind == kinds.GatewayClass {
		k.Name = one(t, "name", classes...)
	} else {
		k.Namespace, k.Name = one(t, "namespace", namespaces...), one(t, "name", names[:2]...)
	}
	c := Change{Verb: Replace, Kind: kind}
	if rarely(t, 4, "gone") {
		c.Updates = []Update{h.set(k, nil)}
		return c
	}
	m := model.Meta{Kind: kind, Namespace: k.Namespace, Name: k.Name, Created: one(t, "created", created...)}
	c.Updates = []Update{h.set(k, []model.Object{drawAttachment(t, m)})}
	return c
}

func drawAttachment(t *rapid.T, m model.Meta) model.Object {
	switch m.Kind {
	case kinds.GatewayClass:
		return &model.GatewayClass{
			Meta: m, Controller: one(t, "controller", model.GatewayController, "other"), Accepted: accepted("Accepted"),
		}
	case kinds.KubernetesGateway:
		return drawKubernetesGateway(t, m)
	case kinds.ReferenceGrant:
		return &model.ReferenceGrant{
			Meta: m, To: []model.GrantTo{{Kind: "Service"}, {Kind: "Secret"}},
			From: []model.GrantFrom{{
				Group: kinds.GatewayAPIGroup, Kind: one(t, "of kind", "HTTPRoute", "GRPCRoute", "TCPRoute", "Gateway"),
				Namespace: one(t, "of", namespaces...),
			}},
		}
	case kinds.ListenerSet:
		return &model.ListenerSet{
			Meta: m, Listeners: drawListeners(t),
			Parent: model.ObjectName{
				Namespace: one(t, "parent of", namespaces...), Name: one(t, "parent", names[:2]...),
			},
		}
	case kinds.BackendTLSPolicy:
		return drawBackendTLS(t, m)
	case bundles:
		return &model.CertificateBundle{
			Meta: m, Broken: one(t, "broken", "", "holds no certificate"), Certificates: one(t, "PEM", "one", "two"),
		}
	default:
		return drawRoute(t, m)
	}
}

func drawBackendTLS(t *rapid.T, m model.Meta) *model.BackendTLSPolicy {
	name := one(t, "Service", names[:2]...)
	return &model.BackendTLSPolicy{
		Meta: m, Accepted: accepted("Accepted"), ResolvedRefs: accepted("ResolvedRefs"),
		TLS:     model.ClientTLS{Mode: model.Simple, SNI: m.Name, SubjectAltNames: []string{m.Name}},
		Bundles: one(t, "bundles", nil, names[:1], names[:2]),
		Targets: []model.BackendTarget{{
			Service: name, Host: model.Resolve(name, m.Namespace, "cluster.local"),
			Section: one(t, "port", "", "", "http", "tcp"),
		}},
	}
}

func accepted(reason string) model.Condition { return model.Condition{Status: true, Reason: reason} }

func drawKubernetesGateway(t *rapid.T, m model.Meta) *model.KubernetesGateway {
	g := &model.KubernetesGateway{
		Meta: m, Class: one(t, "class", classes[0], classes[0], classes[1]), Service: one(t, "Service", hosts[:4]...),
		Accepted: accepted("Accepted"), Listeners: drawListeners(t),
		Sets: one(t, "sets", model.NamespaceSelector{}, model.NamespaceSelector{All: true}),
	}
	g.UID = "u" // else it is not deployed
	if rarely(t, 3, "presents a certificate") {
		g.ResolvedRefs = accepted("ResolvedRefs")
		g.Presents = model.ObjectName{Namespace: one(t, "of", namespaces...), Name: one(t, "Secret", "a", "b")}
	}
	if rarely(t, 3, "verifies clients") {
		g.Clients = []model.ClientValidation{{
			Verifies: true, ResolvedRefs: accepted("ResolvedRefs"),
			Bundles: []model.ObjectName{{Namespace: m.Namespace, Name: one(t, "bundle", names[:2]...)}},
		}}
	}
	return g
}

// routeKinds are those that listeners of HTTP let attach: all, as they do unless they say
// otherwise, or one.
var routeKinds = [][]kinds.Kind{
	{kinds.GRPCRoute, kinds.HTTPRoute}, {kinds.GRPCRoute, kinds.HTTPRoute}, {kinds.HTTPRoute}, {kinds.GRPCRoute},
}

func drawListeners(t *rapid.T) []model.Listener {
	var list []model.Listener
	for _, name := range []string{"one", "two"}[:rapid.IntRange(1, 2).Draw(t, "listeners")] {
		l := model.Listener{
			Name: name, Port: one(t, "port", ports...), Protocol: model.HTTP, Host: one(t, "host", hosts[8:]...),
			Kinds: one(t, "kinds of routes", routeKinds...), From: model.NamespaceSelector{All: true},
			Accepted: accepted("Accepted"), ResolvedRefs: accepted("ResolvedRefs"),
		}
		switch rapid.IntRange(0, 4).Draw(t, "protocol") {
		case 0:
			l.Protocol, l.Host, l.Kinds = model.TCP, "*", []kinds.Kind{kinds.TCPRoute}
		case 1:
			l.Protocol, l.Kinds = model.TLS, []kinds.Kind{kinds.TLSRoute}
			l.TLS = &model.ServerTLS{Mode: model.ServerPassthrough}
		case 2:
			l.TLS = &model.ServerTLS{Mode: model.ServerSimple}
			l.Secrets = []model.ObjectName{{Namespace: one(t, "of", namespaces...), Name: one(t, "Secret", "a", "b")}}
		}
		list = append(list, l)
	}
	return list
}

func drawRoute(t *rapid.T, m model.Meta) *model.AttachedRoute {
	r := &model.AttachedRoute{
		Meta: m, Accepted: accepted("Accepted"), ResolvedRefs: accepted("ResolvedRefs"),
		Hosts: one(t, "hosts", nil, hosts[8:9], hosts[12:13], hosts[13:14]),
	}
	for range rapid.IntRange(1, 2).Draw(t, "parents") {
		p := model.ParentRef{
			Group: kinds.GatewayAPIGroup, Kind: "Gateway", Namespace: one(t, "of", namespaces...),
			Name: one(t, "parent", names[:2]...),
		}
		if rarely(t, 3, "a ListenerSet") {
			p.Kind = string(kinds.ListenerSet)
		}
		if rapid.Bool().Draw(t, "a Service") {
			p.Group, p.Kind = "", "Service"
			p.Host = model.Resolve(p.Name, p.Namespace, "cluster.local")
			p.Port = one[uint16](t, "port", 0, 0, 80, 9080)
		}
		r.Parents = append(r.Parents, p)
	}
	d := drawDestinations(t)
	for i := range d {
		d[i].Subset = ""
		name, rest, _ := strings.Cut(string(d[i].Host), ".")
		namespace, isService := strings.CutSuffix(rest, ".svc.cluster.local")
		f := model.ForeignHost{Service: model.ObjectName{Namespace: namespace, Name: name}, Host: d[i].Host}
		if isService && name != "*" && namespace != m.Namespace && !slices.Contains(r.Foreign, f) {
			r.Foreign = append(r.Foreign, f)
		}
	}
	if m.Kind != kinds.HTTPRoute && m.Kind != kinds.GRPCRoute {
		r.TCP = []*model.TCPRoute{{Destinations: d}}
		return r
	}
	for _, path := range []string{"/x", "/y"}[:rapid.IntRange(1, 2).Draw(t, "rules")] {
		r.HTTP = append(r.HTTP, &model.HTTPRoute{
			AnswersMissing500: true, Destinations: d,
			Matches: []*model.HTTPMatch{{URI: &model.StringMatch{Kind: model.PathPrefix, Value: path}}},
		})
	}
	return r
}
