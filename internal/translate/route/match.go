package route

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

const anything = ".*"

func matchAll() *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
}

// routeMatch translates the conditions on a request; nil takes every request.
func routeMatch(m *model.HTTPMatch) *routev3.RouteMatch {
	out := matchAll()
	if m == nil {
		return out
	}
	setPath(out, m.URI)
	if m.IgnoreURICase {
		out.CaseSensitive = wrapperspb.Bool(false)
	}
	for _, h := range m.Headers {
		if len(h.Claim) > 0 {
			out.DynamicMetadata = append(out.DynamicMetadata, claimMatch(h))
			continue
		}
		out.Headers = append(out.Headers, headerMatch(h.Name, h.Match))
	}
	for _, h := range m.WithoutHeaders {
		if len(h.Claim) > 0 {
			without := claimMatch(h)
			without.Invert = true
			out.DynamicMetadata = append(out.DynamicMetadata, without)
			continue
		}
		out.Headers = append(out.Headers, withoutHeader(h))
	}
	for _, pseudo := range []struct {
		name  string
		match *model.StringMatch
	}{{":method", m.Method}, {":authority", m.Authority}, {":scheme", m.Scheme}} {
		if pseudo.match != nil {
			out.Headers = append(out.Headers, headerMatch(pseudo.name, *pseudo.match))
		}
	}
	for _, q := range m.Query {
		out.QueryParameters = append(out.QueryParameters, queryMatch(q))
	}
	return out
}

func setPath(out *routev3.RouteMatch, uri *model.StringMatch) {
	if uri == nil {
		return
	}
	switch {
	case uri.Kind == model.Exact:
		out.PathSpecifier = &routev3.RouteMatch_Path{Path: uri.Value}
	case uri.Kind == model.Prefix && uri.Value != "":
		out.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: uri.Value}
	case uri.Kind == model.PathPrefix && uri.Value != "":
		out.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: uri.Value}
	case uri.Kind == model.Regex && uri.Value != "":
		out.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: regex(uri.Value)}
	case uri.Kind == model.Regex: // matches the empty path alone; Envoy knows no empty expression
		out.PathSpecifier = &routev3.RouteMatch_Path{}
	}
}

// takesAll tells that no request passes the match by.
func takesAll(m *routev3.RouteMatch) bool {
	if len(m.GetHeaders())+len(m.GetQueryParameters())+len(m.GetDynamicMetadata()) > 0 {
		return false
	}
	switch path := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return path.Prefix == "/"
	case *routev3.RouteMatch_SafeRegex:
		return path.SafeRegex.GetRegex() == anything
	}
	return false
}

func headerMatch(name string, m model.StringMatch) *routev3.HeaderMatcher {
	out := &routev3.HeaderMatcher{Name: name}
	if matchesAny(m) {
		out.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}
	} else {
		out.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: stringMatch(m)}
	}
	return out
}

// withoutHeader holds for a request without the header, too: left alone, Envoy lets a condition on
// a header that is missing fail even where it is inverted.
func withoutHeader(h model.HeaderMatch) *routev3.HeaderMatcher {
	out := headerMatch(h.Name, h.Match)
	out.InvertMatch = true
	if !matchesAny(h.Match) { // Envoy refuses both of them together
		out.TreatMissingHeaderAsEmpty = true
	}
	return out
}

// claimMatch holds for a verified token whose claim is a text that matches, or a list with one.
func claimMatch(h model.HeaderMatch) *matcherv3.MetadataMatcher {
	if matchesAny(h.Match) {
		present := &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_PresentMatch{PresentMatch: true}}
		return pb.Claim(h.Claim, present)
	}
	return pb.Claim(h.Claim, pb.TextOrList(pb.TextValue(stringMatch(h.Match))))
}

func queryMatch(q model.HeaderMatch) *routev3.QueryParameterMatcher {
	out := &routev3.QueryParameterMatcher{Name: q.Name}
	if matchesAny(q.Match) {
		out.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_PresentMatch{PresentMatch: true}
	} else {
		out.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_StringMatch{StringMatch: stringMatch(q.Match)}
	}
	return out
}

func matchesAny(m model.StringMatch) bool {
	return m.Kind == model.Present || m.Kind == model.Prefix && m.Value == ""
}

// stringMatch translates a condition on one string. Envoy takes neither an empty prefix nor an
// empty expression.
func stringMatch(m model.StringMatch) *matcherv3.StringMatcher {
	switch {
	case matchesAny(m):
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regex(anything)}}
	case m.Kind == model.Prefix:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: m.Value}}
	case m.Kind == model.Regex && m.Value != "":
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regex(m.Value)}}
	}
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: m.Value}}
}

// regex is RE2, Envoy's default engine.
func regex(re string) *matcherv3.RegexMatcher { return &matcherv3.RegexMatcher{Regex: re} }
