package convert

import (
	"regexp"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// grpcRouteObject reads a GRPCRoute. A call of gRPC is a request whose path is "/service/method".
func (r *reader) grpcRouteObject(in *gatewayv1.GRPCRoute) []Object {
	p := path("spec")
	out := r.attachedRoute(p, in.Spec.CommonRouteSpec, in.Spec.Hostnames)
	rules := in.Spec.Rules
	if len(rules) == 0 { // all calls, which lead nowhere
		rules = []gatewayv1.GRPCRouteRule{{}}
	}
	refs := backendReader{reader: r, route: out}
	for i := range rules {
		out.HTTP = append(out.HTTP, refs.grpcRule(p.dot("rules").at(i), &rules[i]))
	}
	refs.finish(len(out.HTTP))
	return []Object{out}
}

// grpcRule reads one rule. What it does with calls is what a rule of an HTTPRoute does.
func (b *backendReader) grpcRule(p path, in *gatewayv1.GRPCRouteRule) *model.HTTPRoute {
	start := b.mark()
	matches := in.Matches
	if len(matches) == 0 {
		matches = []gatewayv1.GRPCRouteMatch{{}}
	}
	var read []*model.HTTPMatch
	for i := range matches {
		read = append(read, b.grpcMatch(p.dot("matches").at(i), &matches[i]))
	}
	rule := &gatewayv1.HTTPRouteRule{
		Name: in.Name, SessionPersistence: in.SessionPersistence, Filters: httpFilters(in.Filters),
	}
	for _, backend := range in.BackendRefs {
		rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{
			BackendRef: backend.BackendRef, Filters: httpFilters(backend.Filters),
		})
	}
	return b.rule(rulePart{p, start}, rule, read)
}

// httpFilters are the filters of an HTTPRoute that do the same.
func httpFilters(list []gatewayv1.GRPCRouteFilter) []gatewayv1.HTTPRouteFilter {
	var out []gatewayv1.HTTPRouteFilter
	for _, f := range list {
		out = append(out, gatewayv1.HTTPRouteFilter{
			Type: gatewayv1.HTTPRouteFilterType(f.Type), RequestHeaderModifier: f.RequestHeaderModifier,
			ResponseHeaderModifier: f.ResponseHeaderModifier, RequestMirror: f.RequestMirror,
			ExtensionRef: f.ExtensionRef,
		})
	}
	return out
}

func (r *reader) grpcMatch(p path, in *gatewayv1.GRPCRouteMatch) *model.HTTPMatch {
	var headers []gatewayv1.HTTPHeaderMatch
	for _, h := range in.Headers {
		headers = append(headers, gatewayv1.HTTPHeaderMatch{
			Type: (*gatewayv1.HeaderMatchType)(h.Type), Name: gatewayv1.HTTPHeaderName(h.Name), Value: h.Value,
		})
	}
	return &model.HTTPMatch{
		URI: r.grpcMethod(p.dot("method"), in.Method), Headers: r.headerConditions(p.dot("headers"), headers),
	}
}

// grpcMethod reads the condition on the service and the method as one on the path; nil takes all.
func (r *reader) grpcMethod(p path, in *gatewayv1.GRPCMethodMatch) *model.StringMatch {
	if in == nil {
		return nil
	}
	kind := gatewayv1.GRPCMethodMatchExact
	if in.Type != nil {
		kind = *in.Type
	}
	service, method := "", ""
	if in.Service != nil {
		service = *in.Service
	}
	if in.Method != nil {
		method = *in.Method
	}
	switch {
	case service == "" && method == "":
		r.fail(p, nil, "names no service and no method", "one of the two")
	case kind == gatewayv1.GRPCMethodMatchRegularExpression:
		const any = "[^/]+"
		expression := "/" + orAny(service, any) + "/" + orAny(method, any)
		if r.regex(p, expression) {
			return &model.StringMatch{Kind: model.Regex, Value: expression}
		}
	case kind != gatewayv1.GRPCMethodMatchExact:
		r.fail(p.dot("type"), kind, "is no way to compare a method", "Exact or RegularExpression")
	case strings.ContainsAny(service+method, "/?#") || hasControl(service+method):
		r.fail(p, service+"/"+method, "is no name of a service and a method", "names without slashes")
	case method == "":
		return &model.StringMatch{Kind: model.PathPrefix, Value: "/" + service}
	case service == "":
		return &model.StringMatch{Kind: model.Regex, Value: "/[^/]+/" + regexp.QuoteMeta(method)}
	default:
		return &model.StringMatch{Kind: model.Exact, Value: "/" + service + "/" + method}
	}
	return nil
}

func orAny(expression, any string) string {
	if expression == "" {
		return any
	}
	return "(?:" + expression + ")"
}
