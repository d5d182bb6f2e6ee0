package convert

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// tlsRouteObject reads a TLSRoute. Its hosts are compared with the names that clients ask for.
func (r *reader) tlsRouteObject(in *gatewayv1.TLSRoute) []Object {
	out := r.attachedRoute("spec", in.Spec.CommonRouteSpec, in.Spec.Hostnames)
	var rules []l4Rule
	for _, rule := range in.Spec.Rules {
		rules = append(rules, l4Rule{rule.BackendRefs})
	}
	r.l4Rules(out, rules)
	return []Object{out}
}

// tcpRouteObject reads a TCPRoute.
func (r *reader) tcpRouteObject(in *gatewayv1.TCPRoute) []Object {
	out := r.attachedRoute("spec", in.Spec.CommonRouteSpec, nil)
	var rules []l4Rule
	for _, rule := range in.Spec.Rules {
		rules = append(rules, l4Rule{rule.BackendRefs})
	}
	r.l4Rules(out, rules)
	return []Object{out}
}

// l4Rule is a rule about connections.
type l4Rule struct{ backends []gatewayv1.BackendRef }

// l4Rules reads where the rules of a route lead connections to. Those that a backend cannot take
// are closed.
func (r *reader) l4Rules(out *model.AttachedRoute, rules []l4Rule) {
	p := path("spec").dot("rules")
	if len(rules) == 0 {
		r.warn(p, nil, "is empty, so that connections are closed", "a rule with backendRefs")
	}
	if len(rules) > 1 {
		r.warn(p.at(1), nil, "comes after a rule that takes all connections, and has no effect", "one rule")
	}
	refs := backendReader{reader: r, route: out}
	for i := range rules {
		out.TCP = append(out.TCP, refs.l4Rule(p.at(i).dot("backendRefs"), rules[i].backends))
	}
	refs.finish(len(out.TCP))
}

func (b *backendReader) l4Rule(p path, list []gatewayv1.BackendRef) *model.TCPRoute {
	out := &model.TCPRoute{}
	for i := range list {
		at := p.at(i)
		weight := int32(1)
		if list[i].Weight != nil {
			weight = *list[i].Weight
		}
		if weight == 0 {
			continue
		}
		d := b.backend(at, list[i].BackendObjectReference)
		d.Weight = b.nonNegative(at.dot("weight"), weight)
		out.Destinations = append(out.Destinations, d)
	}
	if len(out.Destinations) == 0 {
		out.Broken = "no backend gets connections"
	}
	return b.pools.tcpRoutes.Canonical(out)
}
