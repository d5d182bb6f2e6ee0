package convert

import (
	"regexp"
	"slices"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// httpFilter reads a filter of a rule. One that is not supported breaks the rule: to leave it out
// would change what requests get.
func (b *backendReader) httpFilter(p path, in *gatewayv1.HTTPRouteFilter, out *model.HTTPRoute) {
	missing := func(field string) { b.fail(p.dot(field), nil, "is missing", "what the type names") }
	switch in.Type {
	case gatewayv1.HTTPRouteFilterRequestHeaderModifier, gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		b.headerModifier(p, in, out)
	case gatewayv1.HTTPRouteFilterRequestRedirect:
		if in.RequestRedirect == nil {
			missing("requestRedirect")
			return
		}
		out.Redirect = b.requestRedirect(p.dot("requestRedirect"), in.RequestRedirect, out.Matches)
	case gatewayv1.HTTPRouteFilterURLRewrite:
		if in.URLRewrite == nil {
			missing("urlRewrite")
			return
		}
		out.Rewrite = b.pathModifier(p.dot("urlRewrite.path"), in.URLRewrite.Path, out.Matches)
		if in.URLRewrite.Hostname != nil {
			host, _ := b.literal(p.dot("urlRewrite.hostname"), string(*in.URLRewrite.Hostname), false)
			if out.Rewrite == nil {
				out.Rewrite = &model.Rewrite{}
			}
			out.Rewrite.Authority = string(host)
		}
	case gatewayv1.HTTPRouteFilterRequestMirror:
		if in.RequestMirror == nil {
			missing("requestMirror")
			return
		}
		b.requestMirror(p.dot("requestMirror"), in.RequestMirror, out)
	case gatewayv1.HTTPRouteFilterCORS:
		if in.CORS == nil {
			missing("cors")
			return
		}
		out.CORS = b.corsFilter(p.dot("cors"), in.CORS)
	default:
		b.fail(p.dot("type"), in.Type, "is no filter that is supported", "another filter")
	}
}

func (b *backendReader) headerModifier(p path, in *gatewayv1.HTTPRouteFilter, out *model.HTTPRoute) {
	if out.Headers == nil {
		out.Headers = &model.HeaderOps{}
	}
	switch {
	case in.RequestHeaderModifier != nil && in.Type == gatewayv1.HTTPRouteFilterRequestHeaderModifier:
		out.Headers.Request = b.headerFilter(p.dot("requestHeaderModifier"), in.RequestHeaderModifier)
	case in.ResponseHeaderModifier != nil && in.Type == gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		out.Headers.Response = b.headerFilter(p.dot("responseHeaderModifier"), in.ResponseHeaderModifier)
	default:
		b.fail(p, nil, "has no headers to change", "what the type names")
	}
}

// headerFilter reads header operations. Names are the same in any case, and the first one counts.
func (r *reader) headerFilter(p path, in *gatewayv1.HTTPHeaderFilter) model.HeaderOp {
	op := model.HeaderOp{
		Set: r.filterHeaders(p.dot("set"), in.Set),
		Add: r.filterHeaders(p.dot("add"), in.Add),
	}
	for i, name := range in.Remove {
		at := p.dot("remove").at(i)
		if isAuthority(name) {
			r.fail(at, name, "cannot be removed", "another header")
			continue
		}
		op.Remove = append(op.Remove, r.headerName(at, name))
	}
	op.Remove = sorted(op.Remove)
	return op
}

func (r *reader) filterHeaders(p path, list []gatewayv1.HTTPHeader) []model.Header {
	var out []model.Header
	for i, h := range list {
		at := p.at(i)
		if isAuthority(string(h.Name)) {
			r.fail(at.dot("name"), h.Name, "cannot be set by this filter", "the filter URLRewrite")
			continue
		}
		if hasControl(h.Value) || len(h.Value) > maxHeaderSize {
			r.fail(at.dot("value"), nil, "has control characters, or is longer than 16384 bytes", "plain text")
			continue
		}
		name := r.headerName(at.dot("name"), string(h.Name))
		if slices.ContainsFunc(out, func(o model.Header) bool { return o.Name == name }) {
			continue
		}
		// the Gateway API knows no commands
		out = append(out, model.Header{Name: name, Value: strings.ReplaceAll(h.Value, "%", "%%")})
	}
	slices.SortStableFunc(out, func(a, b model.Header) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (r *reader) requestRedirect(
	p path, in *gatewayv1.HTTPRequestRedirectFilter, matches []*model.HTTPMatch,
) *model.Redirect {
	out := &model.Redirect{Code: 302}
	if in.StatusCode != nil {
		out.Code = uint32(max(*in.StatusCode, 0))
	}
	if !slices.Contains([]uint32{301, 302, 303, 307, 308}, out.Code) {
		r.fail(p.dot("statusCode"), out.Code, "is no status of a redirect", "one of 301, 302, 303, 307, 308")
	}
	if in.Scheme != nil {
		if out.Scheme = strings.ToLower(*in.Scheme); out.Scheme != "http" && out.Scheme != "https" {
			r.fail(p.dot("scheme"), *in.Scheme, "is no scheme", "http or https")
		}
	}
	if in.Hostname != nil {
		host, _ := r.literal(p.dot("hostname"), string(*in.Hostname), false)
		out.Authority = string(host)
	}
	switch {
	case in.Port != nil:
		out.Port, _ = r.port(p.dot("port"), int64(*in.Port))
	case in.Scheme == nil: // that of the listener; with a scheme that of the scheme
		out.PortFromRequest = true
	}
	out.Path = r.pathModifier(p.dot("path"), in.Path, matches)
	if in.Path != nil && in.Path.Type == gatewayv1.FullPathHTTPPathModifier && in.Path.ReplaceFullPath != nil {
		out.Path, out.URI = nil, *in.Path.ReplaceFullPath
	}
	return out
}

// pathModifier reads what replaces a path, or the prefix that was matched. nil replaces nothing.
func (r *reader) pathModifier(p path, in *gatewayv1.HTTPPathModifier, matches []*model.HTTPMatch) *model.Rewrite {
	switch {
	case in == nil:
		return nil
	case in.Type == gatewayv1.FullPathHTTPPathModifier && in.ReplaceFullPath != nil:
		r.plainText(p.dot("replaceFullPath"), *in.ReplaceFullPath)
		return &model.Rewrite{Regex: ".+", Substitution: strings.ReplaceAll(*in.ReplaceFullPath, `\`, `\\`)}
	case in.Type == gatewayv1.PrefixMatchHTTPPathModifier && in.ReplacePrefixMatch != nil:
		at := p.dot("replacePrefixMatch")
		r.plainText(at, *in.ReplacePrefixMatch)
		if len(matches) != 1 || matches[0].URI != nil && matches[0].URI.Kind != model.PathPrefix {
			r.fail(at, *in.ReplacePrefixMatch, "has no one prefix to replace", "a single match with a PathPrefix")
			return nil
		}
		return replacePrefix(matches[0].URI, strings.TrimRight(*in.ReplacePrefixMatch, "/"))
	}
	r.fail(p.dot("type"), in.Type, "is no change of a path, or says not what to replace it by",
		"ReplaceFullPath or ReplacePrefixMatch")
	return nil
}

// replacePrefix replaces whole elements of a path: "/shop" of "/shop/a" by "/store" gives
// "/store/a", and by "/" gives "/a".
func replacePrefix(prefix *model.StringMatch, by string) *model.Rewrite {
	switch {
	case prefix == nil:
		return &model.Rewrite{URI: by + "/"}
	case by == "":
		return &model.Rewrite{Regex: "^" + regexp.QuoteMeta(prefix.Value) + "/*", Substitution: "/"}
	}
	return &model.Rewrite{URI: by}
}

// requestMirror reads which share of the requests is mirrored; mirrorBackends reads where to.
func (b *backendReader) requestMirror(p path, in *gatewayv1.HTTPRequestMirrorFilter, out *model.HTTPRoute) {
	m := model.Mirror{Percent: hundredPercent}
	switch {
	case in.Percent != nil:
		m.Percent = b.wholePercent(p.dot("percent"), *in.Percent) * (hundredPercent / 100)
	case in.Fraction != nil:
		of := int64(100)
		if in.Fraction.Denominator != nil {
			of = int64(*in.Fraction.Denominator)
		}
		part := int64(in.Fraction.Numerator)
		if of <= 0 || part < 0 || part > of {
			b.fail(p.dot("fraction"), part, "is no fraction of 1", "a numerator from 0 to the denominator")
			return
		}
		m.Percent = uint32(part * hundredPercent / of)
	}
	out.Mirrors = append(out.Mirrors, m)
}

// corsFilter reads a cross-origin policy. Requests of other origins are answered without its
// headers.
func (r *reader) corsFilter(p path, in *gatewayv1.HTTPCORSFilter) *model.CORS {
	out := &model.CORS{MaxAge: time.Duration(in.MaxAge) * time.Second, AllowCredentials: in.AllowCredentials}
	if in.MaxAge < 0 {
		r.fail(p.dot("maxAge"), in.MaxAge, "is negative", "a number of seconds")
	}
	for i, origin := range in.AllowOrigins {
		r.plainText(p.dot("allowOrigins").at(i), string(origin))
		out.Origins = append(out.Origins, originMatch(string(origin)))
	}
	for _, m := range in.AllowMethods {
		out.Methods = append(out.Methods, string(m))
	}
	for _, h := range in.AllowHeaders {
		out.Headers = append(out.Headers, string(h))
	}
	for _, h := range in.ExposeHeaders {
		out.Expose = append(out.Expose, string(h))
	}
	out.Methods = r.tokens(p.dot("allowMethods"), out.Methods)
	out.Headers = r.tokens(p.dot("allowHeaders"), out.Headers)
	out.Expose = r.tokens(p.dot("exposeHeaders"), out.Expose)
	forward := false
	out.ForwardUnmatched = &forward
	return out
}

// originMatch compares an origin. "*" stands for any, and in a host for one or more labels.
func originMatch(origin string) model.StringMatch {
	switch {
	case origin == "*":
		return model.StringMatch{Kind: model.Regex, Value: ".*"}
	case strings.Contains(origin, "*"):
		return model.StringMatch{
			Kind: model.Regex, Value: strings.ReplaceAll(regexp.QuoteMeta(origin), `\*`, `.+`),
		}
	}
	return model.StringMatch{Kind: model.Exact, Value: origin}
}
