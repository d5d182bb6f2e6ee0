package convert

import (
	"slices"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// httpRouteObject reads an HTTPRoute. A rule that cannot be in force answers its requests with 500,
// as the specification has it.
func (r *reader) httpRouteObject(in *gatewayv1.HTTPRoute) []Object {
	p := path("spec")
	out := r.attachedRoute(p, in.Spec.CommonRouteSpec, in.Spec.Hostnames)
	rules := in.Spec.Rules
	if len(rules) == 0 { // the default of the API
		rules = []gatewayv1.HTTPRouteRule{{}}
	}
	refs := backendReader{reader: r, route: out}
	for i := range rules {
		out.HTTP = append(out.HTTP, refs.httpRule(p.dot("rules").at(i), &rules[i]))
	}
	refs.finish(len(out.HTTP))
	return []Object{out}
}

// attachedRoute reads what all kinds of routes have in common.
func (r *reader) attachedRoute(
	p path, in gatewayv1.CommonRouteSpec, hosts []gatewayv1.Hostname,
) *model.AttachedRoute {
	out := &model.AttachedRoute{
		Meta:         r.meta,
		Accepted:     accepted(string(gatewayv1.RouteReasonAccepted)),
		ResolvedRefs: accepted(string(gatewayv1.RouteReasonResolvedRefs)),
	}
	for i, ref := range in.ParentRefs {
		out.Parents = append(out.Parents, r.parentRef(p.dot("parentRefs").at(i), ref))
	}
	if len(out.Parents) == 0 {
		r.warn(p.dot("parentRefs"), nil, "is empty, so that the route is nowhere in force", "a Gateway")
	}
	if in.UseDefaultGateways != "" && in.UseDefaultGateways != gatewayv1.GatewayDefaultScopeNone {
		r.warn(p.dot("useDefaultGateways"), in.UseDefaultGateways, notYet, "")
	}
	for i, name := range hosts {
		host, ok := r.literal(p.dot("hostnames").at(i), string(name), true)
		if ok && !slices.Contains(out.Hosts, host) {
			out.Hosts = append(out.Hosts, host)
		}
	}
	if len(hosts) > 0 && len(out.Hosts) == 0 {
		out.Closed = true
		out.Accepted = model.Condition{
			Reason: string(gatewayv1.RouteReasonUnsupportedValue), Message: "no hostname can be read",
		}
	}
	return out
}

// parentRef reads one parent, with the defaults of the API.
func (r *reader) parentRef(p path, in gatewayv1.ParentReference) model.ParentRef {
	out := model.ParentRef{Group: kinds.GatewayAPIGroup, Kind: "Gateway", Name: string(in.Name)}
	if in.Group != nil {
		out.Group = string(*in.Group)
	}
	if in.Kind != nil {
		out.Kind = string(*in.Kind)
	}
	if in.Namespace != nil {
		out.Namespace = string(*in.Namespace)
	}
	if in.SectionName != nil {
		out.Section = string(*in.SectionName)
	}
	if in.Port != nil {
		out.Port, _ = r.port(p.dot("port"), int64(*in.Port))
	}
	switch {
	case out.IsGateway(), out.IsListenerSet():
	case out.Group == "" && out.Kind == "Service" && isName(out.Name) && isName(out.NamespaceIn(r.meta.Namespace)):
		out.Host = model.Resolve(out.Name, out.NamespaceIn(r.meta.Namespace), r.mesh.Domain)
	default:
		r.warn(p.dot("kind"), out.Kind, "is no parent that is supported; the route has no effect there",
			"a Gateway, a ListenerSet or a Service")
	}
	return out
}

// httpRule reads one rule as one route of the model.
func (b *backendReader) httpRule(p path, in *gatewayv1.HTTPRouteRule) *model.HTTPRoute {
	start := b.mark()
	matches := in.Matches
	if len(matches) == 0 {
		matches = []gatewayv1.HTTPRouteMatch{{}}
	}
	var read []*model.HTTPMatch
	for i := range matches {
		read = append(read, b.routeMatch(p.dot("matches").at(i), &matches[i]))
	}
	return b.rule(rulePart{p, start}, in, read)
}

// rulePart is a rule by its field and where its problems begin.
type rulePart struct {
	path
	start int // as mark gives it
}

// rule reads what a rule does with the requests that match.
func (b *backendReader) rule(
	p rulePart, in *gatewayv1.HTTPRouteRule, matches []*model.HTTPMatch,
) *model.HTTPRoute {
	r := b.reader
	out := &model.HTTPRoute{AnswersMissing500: true}
	if in.Name != nil {
		out.Name = string(*in.Name)
	}
	for _, m := range matches {
		out.Matches = append(out.Matches, r.pools.httpMatches.Canonical(m))
	}
	for i := range in.Filters {
		b.httpFilter(p.dot("filters").at(i), &in.Filters[i], out)
	}
	r.ruleTimeouts(p.dot("timeouts"), in, out)
	r.ruleRetry(p.dot("retry"), in.Retry, out)
	out.Session = r.ruleSession(p.dot("sessionPersistence"), in.SessionPersistence)
	if broken := r.failure(p.start, p.path); broken != "" {
		b.broken++
		b.partiallyInvalid(p.path, broken)
		out = &model.HTTPRoute{Name: out.Name, Matches: out.Matches, AnswersMissing500: true, Broken: broken}
		return r.pools.httpRoutes.Canonical(out)
	}
	b.mirrorBackends(p.dot("filters"), in.Filters, out)
	if out.Redirect == nil {
		b.forward(p.dot("backendRefs"), in.BackendRefs, out)
	}
	return r.pools.httpRoutes.Canonical(out)
}

// routeMatch reads the conditions of a rule.
func (r *reader) routeMatch(p path, in *gatewayv1.HTTPRouteMatch) *model.HTTPMatch {
	m := &model.HTTPMatch{URI: r.pathMatch(p.dot("path"), in.Path)}
	if in.Method != nil {
		if !isToken(string(*in.Method)) {
			r.fail(p.dot("method"), *in.Method, "is no method", "a method of HTTP")
		}
		m.Method = &model.StringMatch{Kind: model.Exact, Value: string(*in.Method)}
	}
	m.Headers = r.headerConditions(p.dot("headers"), in.Headers)
	seen := map[string]bool{}
	for i, q := range in.QueryParams {
		at := p.dot("queryParams").at(i)
		if seen[string(q.Name)] {
			continue
		}
		seen[string(q.Name)] = true
		expression := q.Type != nil && *q.Type == gatewayv1.QueryParamMatchRegularExpression
		m.Query = append(m.Query, r.valueMatch(at, string(q.Name), q.Value, expression))
	}
	slices.SortFunc(m.Query, byName)
	return m
}

// headerConditions reads conditions on headers, sorted by name. The first one of a header counts.
func (r *reader) headerConditions(p path, list []gatewayv1.HTTPHeaderMatch) []model.HeaderMatch {
	var out []model.HeaderMatch
	seen := map[string]bool{}
	for i, h := range list {
		name := r.headerName(p.at(i).dot("name"), string(h.Name))
		if seen[name] {
			continue
		}
		seen[name] = true
		expression := h.Type != nil && *h.Type == gatewayv1.HeaderMatchRegularExpression
		out = append(out, r.valueMatch(p.at(i), name, h.Value, expression))
	}
	slices.SortFunc(out, byName)
	return out
}

func byName(a, b model.HeaderMatch) int { return strings.Compare(a.Name, b.Name) }

func (r *reader) valueMatch(p path, name, value string, expression bool) model.HeaderMatch {
	m := model.HeaderMatch{Name: name, Match: model.StringMatch{Kind: model.Exact, Value: value}}
	if name == "" {
		r.fail(p.dot("name"), name, "is empty", "a name")
	}
	if expression {
		m.Match.Kind = model.Regex
		r.regex(p.dot("value"), value)
	}
	return m
}

// pathMatch reads the condition on the path; nil takes each path.
func (r *reader) pathMatch(p path, in *gatewayv1.HTTPPathMatch) *model.StringMatch {
	kind, value := gatewayv1.PathMatchPathPrefix, "/"
	if in != nil && in.Type != nil {
		kind = *in.Type
	}
	if in != nil && in.Value != nil {
		value = *in.Value
	}
	if kind != gatewayv1.PathMatchRegularExpression && (!strings.HasPrefix(value, "/") || hasControl(value) ||
		strings.ContainsAny(value, "?#")) {
		r.fail(p.dot("value"), value, "is no path", `a path as "/shop"`)
		return nil
	}
	switch kind {
	case gatewayv1.PathMatchExact:
		return &model.StringMatch{Kind: model.Exact, Value: value}
	case gatewayv1.PathMatchPathPrefix:
		if value = strings.TrimRight(value, "/"); value == "" {
			return nil
		}
		return &model.StringMatch{Kind: model.PathPrefix, Value: value}
	case gatewayv1.PathMatchRegularExpression:
		if r.regex(p.dot("value"), value) {
			return &model.StringMatch{Kind: model.Regex, Value: value}
		}
		return nil
	}
	r.fail(p.dot("type"), kind, "is no way to compare a path", "Exact, PathPrefix or RegularExpression")
	return nil
}

// ruleTimeouts reads the timeouts of a rule. That of a backend's request is one for each attempt.
func (r *reader) ruleTimeouts(p path, in *gatewayv1.HTTPRouteRule, out *model.HTTPRoute) {
	if in.Timeouts == nil {
		return
	}
	out.Timeout = r.gatewayDuration(p.dot("request"), in.Timeouts.Request)
	each := r.gatewayDuration(p.dot("backendRequest"), in.Timeouts.BackendRequest)
	if each == 0 {
		return
	}
	if out.Timeout != 0 && each > out.Timeout {
		want := "at most " + out.Timeout.String()
		r.fail(p.dot("backendRequest"), each, "is longer than that of the whole request", want)
	}
	retries := *model.DefaultRetries()
	if in.Retry == nil { // one attempt; the mesh's default would retry within the same timeout
		if out.Timeout == 0 {
			out.Timeout = each
		} else {
			out.Timeout = min(out.Timeout, each)
		}
		return
	}
	retries.PerTryTimeout = each
	out.Retries = &retries
}

// ruleRetry reads when a request is tried again.
func (r *reader) ruleRetry(p path, in *gatewayv1.HTTPRouteRetry, out *model.HTTPRoute) {
	if in == nil {
		return
	}
	retries := *model.DefaultRetries()
	retries.Attempts = 1
	if out.Retries != nil {
		retries.PerTryTimeout = out.Retries.PerTryTimeout
	}
	if in.Attempts != nil {
		if *in.Attempts < 0 || *in.Attempts > 1000 {
			r.fail(p.dot("attempts"), *in.Attempts, "is out of range", "a number from 0 to 1000")
		} else {
			retries.Attempts = uint32(*in.Attempts)
		}
	}
	for i, code := range in.Codes {
		if code < 400 || code > 599 {
			r.fail(p.dot("codes").at(i), code, "is no status of an error", "a number from 400 to 599")
			continue
		}
		retries.StatusCodes = append(retries.StatusCodes, uint32(code))
	}
	slices.Sort(retries.StatusCodes)
	retries.StatusCodes = slices.Compact(retries.StatusCodes)
	if len(retries.StatusCodes) > 0 {
		retries.RetryOn += "," + statusCodes
	}
	retries.Backoff = r.gatewayDuration(p.dot("backoff"), in.Backoff)
	if retries.Attempts == 0 {
		retries = model.Retries{}
	}
	out.Retries = r.pools.retries.Canonical(&retries)
}

// gatewayDuration reads a duration as the Gateway API writes it (GEP-2257); 0 for none.
func (r *reader) gatewayDuration(p path, in *gatewayv1.Duration) time.Duration {
	if in == nil {
		return 0
	}
	d, err := time.ParseDuration(string(*in))
	if err != nil || d < 0 || d > maxDuration || strings.ContainsAny(string(*in), ".nuµ+-") {
		r.fail(p, *in, "is no duration", `one as "1h30m", "10s" or "500ms"`)
		return 0
	}
	return d
}
