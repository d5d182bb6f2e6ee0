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
	v := &model.VirtualService{Meta: r.meta, Gateways: []string{model.Mesh}}
	if len(spec.GetGateways()) > 0 {
		v.Gateways = r.gateways(p.dot("gateways"), spec.GetGateways())
	}
	v.Hosts = r.virtualHosts(p.dot("hosts"), spec.GetHosts(), slices.Contains(v.Gateways, model.Mesh))
	for i, in := range spec.GetHttp() {
		v.HTTP = append(v.HTTP, r.httpRoute(p.dot("http").at(i), in))
	}
	r.checkReachable(p.dot("http"), v.HTTP)
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
	if len(v.Hosts) == 0 || len(v.Gateways) == 0 {
		return nil
	}
	return []Object{v}
}

func (r *reader) virtualHosts(p path, list []string, forMesh bool) []model.Host {
	if len(list) == 0 {
		r.fail(
			p, nil, "is empty; a VirtualService without hosts is for delegation, which is not supported yet",
			wantWildcard,
		)
	}
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

// httpRoute reads one entry of spec.http. An error in it makes the route Broken.
func (r *reader) httpRoute(p path, in *networking.HTTPRoute) *model.HTTPRoute {
	start := r.mark()
	out := &model.HTTPRoute{Name: in.GetName(), Matches: r.httpMatches(p.dot("match"), in.GetMatch())}
	out.Rewrite = r.rewrite(p.dot("rewrite"), in.GetRewrite())
	r.action(p, in, out)
	out.Timeout = r.durationOrZero(p.dot("timeout"), in.GetTimeout())
	if in.GetRetries() != nil {
		out.Retries = r.pools.retries.Canonical(r.retryPolicy(p.dot("retries"), in.GetRetries()))
	}
	out.Fault = r.fault(p.dot("fault"), in.GetFault())
	out.Mirrors = r.mirrors(p, in)
	out.CORS = r.cors(p.dot("corsPolicy"), in.GetCorsPolicy())
	r.routeHeaders(p, in, out)
	if len(out.Destinations) == 0 {
		r.checkWithoutDestinations(p, in)
		out.Timeout, out.Retries, out.Mirrors = 0, nil, nil
	}
	if broken := r.failure(start, p); broken != "" {
		out = &model.HTTPRoute{Name: out.Name, Matches: out.Matches, Broken: broken}
	}
	return r.pools.httpRoutes.Canonical(out)
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
	if in.GetDirectResponse() != nil {
		actions = append(actions, "directResponse")
	}
	if in.GetDelegate() != nil {
		actions = append(actions, "delegate")
	}
	const want = "one of route, redirect, directResponse"
	switch {
	case len(actions) == 0:
		r.fail(p, nil, "says nothing to do with the requests that it matches", want)
	case len(actions) > 1:
		r.fail(p.dot(actions[1]), nil, "is set beside "+actions[0], want)
	case in.GetDelegate() != nil:
		d := in.GetDelegate()
		r.fail(p.dot("delegate"), d.GetNamespace()+"/"+d.GetName(), "delegation is not supported yet", want)
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
