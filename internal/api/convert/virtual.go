package convert

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// virtualService gives nothing if no host or no gateway can be read.
func (r *reader) virtualService(in *networkingv1.VirtualService) []Object {
	spec := &in.Spec
	p := path("spec")
	if len(spec.GetHosts()) == 0 {
		return r.delegateRoutes(p, spec)
	}
	v := &model.VirtualService{Meta: r.meta, Gateways: []string{model.Mesh}}
	if len(spec.GetGateways()) > 0 {
		v.Gateways = r.gateways(p.dot("gateways"), spec.GetGateways())
	}
	v.Hosts = r.virtualHosts(p.dot("hosts"), spec.GetHosts(), slices.Contains(v.Gateways, model.Mesh))
	var delegations []model.Delegation
	for i, in := range spec.GetHttp() {
		route, given := r.httpRoute(p.dot("http").at(i), in)
		v.HTTP = append(v.HTTP, route)
		if in.GetDelegate() != nil && route.Broken == "" {
			delegations = append(delegations, model.Delegation{Route: i, To: r.delegateOf(in), Given: given})
		}
	}
	r.checkReachable(p.dot("http"), v.HTTP, delegations)
	for i, in := range spec.GetTls() {
		v.TLS = append(v.TLS, r.tlsRoute(p.dot("tls").at(i), in, v.Hosts))
	}
	for i, in := range spec.GetTcp() {
		v.TCP = append(v.TCP, r.tcpRoute(p.dot("tcp").at(i), in))
	}
	if len(v.HTTP)+len(v.TLS)+len(v.TCP) == 0 {
		r.warn(p, nil, "has no routes, so it changes nothing", "one of http, tls, tcp")
	}
	v.ExportTo = r.exports(p.dot("exportTo"), spec.GetExportTo(), r.mesh.VirtualServiceExport)
	r.reportUnused(p, spec.ProtoReflect())
	switch {
	case len(v.Hosts) == 0 || len(v.Gateways) == 0:
		return nil
	case len(delegations) > 0:
		return []Object{&model.RootRoutes{VirtualService: *v, Delegations: delegations}}
	}
	return []Object{v}
}

func (r *reader) virtualHosts(p path, list []string, forMesh bool) []model.Host {
	var out []model.Host
	for i, text := range list {
		host, ok := r.resolve(p.at(i), text, true)
		switch {
		case !ok:
		case host == "*" && forMesh:
			r.fail(p.at(i), text, "cannot be routed on sidecars", "gateways without mesh, or names of hosts")
		case slices.Contains(out, host):
			r.warn(p.at(i), text, "is there twice", "")
		default:
			out = append(out, host)
		}
	}
	return out
}

// httpRoute reads one entry of spec.http. An error in it makes the route Broken. given tells of a
// route that delegates, and of one of a delegate, what is written.
func (r *reader) httpRoute(p path, in *networking.HTTPRoute) (out *model.HTTPRoute, given model.Given) {
	start := r.mark()
	out = &model.HTTPRoute{Name: in.GetName(), Matches: r.httpMatches(p.dot("match"), in.GetMatch())}
	out.Rewrite = r.rewrite(p.dot("rewrite"), in.GetRewrite())
	joins := r.delegated || in.GetDelegate() != nil
	if joins {
		given = givenBy(in, out)
	}
	r.action(p, in, out)
	if joins {
		given.DestinationAuthority = authorityBeside(given.Rewrite, out)
	}
	out.Timeout = r.durationOrZero(p.dot("timeout"), in.GetTimeout())
	if in.GetRetries() != nil {
		out.Retries = r.pools.retries.Canonical(r.retryPolicy(p.dot("retries"), in.GetRetries()))
	}
	out.Fault = r.fault(p.dot("fault"), in.GetFault())
	out.Mirrors = r.mirrors(p, in)
	out.CORS = r.cors(p.dot("corsPolicy"), in.GetCorsPolicy())
	r.routeHeaders(p, in, out)
	if joins {
		if given.DestinationAuthority == "" {
			given.HeaderAuthority = authorityBeside(given.Rewrite, out)
		}
		r.giveMirrorPercent(p, in, out, &given)
	}
	if len(out.Destinations) == 0 && in.GetDelegate() == nil {
		r.checkWithoutDestinations(p, in)
		out.Timeout, out.Retries, out.Mirrors = 0, nil, nil
	}
	if broken := r.failure(start, p); broken != "" {
		out, given = &model.HTTPRoute{Name: out.Name, Matches: out.Matches, Broken: broken}, model.Given{}
	}
	return r.pools.httpRoutes.Canonical(out), given
}

// action reads what the route does: exactly one thing.
func (r *reader) action(p path, in *networking.HTTPRoute, out *model.HTTPRoute) {
	var actions []string
	if len(in.GetRoute()) > 0 {
		actions = append(actions, "route")
	}
	if in.GetRedirect() != nil {
		actions = append(actions, "redirect")
	}
	if in.GetDirectResponse() != nil && in.GetDelegate() == nil { // else routes of the delegate may inherit it
		actions = append(actions, "directResponse")
	}
	if in.GetDelegate() != nil {
		actions = append(actions, "delegate")
	}
	const want = "one of route, redirect, directResponse, delegate"
	switch {
	case len(actions) == 0:
		r.fail(p, nil, "says nothing to do with the requests that it matches", want)
	case len(actions) > 1:
		r.fail(p.dot(actions[1]), nil, "is set beside "+actions[0], want)
	case in.GetDelegate() != nil:
		r.delegation(p, in, out)
	case in.GetRedirect() != nil:
		out.Redirect = r.redirect(p.dot("redirect"), in.GetRedirect(), in.GetMatch())
	case in.GetDirectResponse() != nil:
		out.Direct = r.directResponse(p.dot("directResponse"), in.GetDirectResponse())
	}
	out.Destinations = r.httpDestinations(p.dot("route"), in.GetRoute(), out)
}

// checkWithoutDestinations reports settings that are wrong or without effect beside a redirect or a
// direct response.
func (r *reader) checkWithoutDestinations(p path, in *networking.HTTPRoute) {
	if in.GetRedirect() == nil && in.GetDirectResponse() == nil {
		return
	}
	const message, want = "does not go with a redirect or a direct response", "a route that forwards"
	if in.GetRewrite() != nil {
		r.fail(p.dot("rewrite"), nil, message, want)
	}
	if in.GetFault() != nil {
		r.fail(p.dot("fault"), nil, message, want)
	}
	const idle = "has no effect beside a redirect or a direct response"
	if in.GetTimeout() != nil {
		r.warn(p.dot("timeout"), in.GetTimeout().AsDuration(), idle, want)
	}
	if in.GetRetries() != nil {
		r.warn(p.dot("retries"), nil, idle, want)
	}
	if in.GetMirror() != nil || len(in.GetMirrors()) > 0 {
		r.warn(p.dot("mirrors"), nil, idle, want)
	}
}

// routeHeaders reads the route's own header operations. As in Istio, a request header Host is a
// rewrite of the authority.
func (r *reader) routeHeaders(p path, in *networking.HTTPRoute, out *model.HTTPRoute) {
	ops, authority := r.headerOps(p.dot("headers"), in.GetHeaders())
	out.Headers = ops
	if authority != "" {
		r.setAuthority(p.dot("headers.request"), authority, out)
	}
}

func (r *reader) setAuthority(p path, authority string, out *model.HTTPRoute) {
	switch {
	case out.Redirect != nil || out.Direct != nil:
		r.fail(p, authority, "the host cannot be set on a redirect or a direct response", "redirect.authority")
	case out.Rewrite != nil && out.Rewrite.Authority != "":
		r.fail(p, authority, "the authority is set in two places", "rewrite.authority alone")
	case out.Rewrite == nil:
		out.Rewrite = &model.Rewrite{Authority: authority}
	default:
		out.Rewrite.Authority = authority
	}
}
