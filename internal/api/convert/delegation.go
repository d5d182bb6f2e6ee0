package convert

import (
	"cmp"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// delegateRoutes reads a VirtualService without hosts: routes for those that delegate to it.
func (r *reader) delegateRoutes(p path, spec *networking.VirtualService) []Object {
	r.delegated = true
	const message, want = "has no meaning without hosts: the VirtualService is a delegate", "http alone"
	if len(spec.GetGateways()) > 0 {
		r.fail(p.dot("gateways"), nil, message, "the gateways of the VirtualService that delegates to it")
	}
	if len(spec.GetTls()) > 0 {
		r.fail(p.dot("tls"), nil, message, want)
	}
	if len(spec.GetTcp()) > 0 {
		r.fail(p.dot("tcp"), nil, message, want)
	}
	if len(spec.GetHttp()) == 0 {
		r.fail(p.dot("http"), nil, "is empty, and there are no hosts", "hosts, or http for those that delegate to it")
	}
	d := &model.DelegateRoutes{Meta: r.meta}
	for i, in := range spec.GetHttp() {
		route, given := r.httpRoute(p.dot("http").at(i), in)
		d.HTTP, d.Given = append(d.HTTP, route), append(d.Given, given)
	}
	r.checkReachable(p.dot("http"), d.HTTP, nil)
	d.ExportTo = r.exports(p.dot("exportTo"), spec.GetExportTo(), r.mesh.VirtualServiceExport)
	r.reportUnused(p, spec.ProtoReflect())
	return []Object{d}
}

// delegation reads a route that delegates. A direct response beside it is for routes of the
// delegate that do not redirect, as in Istio.
func (r *reader) delegation(p path, in *networking.HTTPRoute, out *model.HTTPRoute) {
	to := r.delegateOf(in)
	switch {
	case r.delegated:
		r.fail(
			p.dot("delegate"), to.Namespace+"/"+to.Name, "cannot stand in a delegate: delegation has one level",
			"the routes themselves",
		)
	case to.Name == "":
		r.fail(p.dot("delegate.name"), "", "is empty", "the name of a VirtualService without hosts")
	case in.GetDirectResponse() != nil:
		out.Direct = r.directResponse(p.dot("directResponse"), in.GetDirectResponse())
	}
}

// delegateOf returns which VirtualService has the routes in the place of one.
func (r *reader) delegateOf(in *networking.HTTPRoute) model.ObjectName {
	d := in.GetDelegate()
	return model.ObjectName{Namespace: cmp.Or(d.GetNamespace(), r.meta.Namespace), Name: d.GetName()}
}

// givenBy returns what is written of a route whose rewrite has been read, and nothing after it.
func givenBy(in *networking.HTTPRoute, out *model.HTTPRoute) model.Given {
	given := model.Given{
		Timeout: in.GetTimeout() != nil, Retries: in.GetRetries() != nil, Fault: in.GetFault() != nil,
		CORS: in.GetCorsPolicy() != nil, Headers: in.GetHeaders() != nil,
		Mirror: in.GetMirror() != nil, Mirrors: len(in.GetMirrors()) > 0,
	}
	if out.Rewrite != nil {
		rewrite := *out.Rewrite // headers may add an authority to the other one
		given.Rewrite = &rewrite
	}
	return given
}

// authorityBeside returns the authority that headers have added to a rewrite, "" for none.
func authorityBeside(rewrite *model.Rewrite, out *model.HTTPRoute) string {
	if out.Rewrite == nil || rewrite != nil && rewrite.Authority != "" {
		return ""
	}
	return out.Rewrite.Authority
}

// giveMirrorPercent reads which share of requests the field mirror gets. The mirror may stand in
// the other route.
func (r *reader) giveMirrorPercent(p path, in *networking.HTTPRoute, out *model.HTTPRoute, given *model.Given) {
	switch {
	case !hasMirrorPercent(in):
	case given.Mirror:
		given.MirrorPercent = &out.Mirrors[0].Percent
	default:
		percent := r.mirrorPercent(p, in)
		given.MirrorPercent = &percent
	}
}
