package convert

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// httpMatches reads conditions. A wrong condition is left out, so that the broken route covers
// more.
func (r *reader) httpMatches(p path, list []*networking.HTTPMatchRequest) []*model.HTTPMatch {
	var out []*model.HTTPMatch
	for i, in := range list {
		out = append(out, r.pools.httpMatches.Canonical(r.httpMatch(p.at(i), in)))
	}
	return out
}

func (r *reader) httpMatch(p path, in *networking.HTTPMatchRequest) *model.HTTPMatch {
	m := &model.HTTPMatch{
		Name:           in.GetName(),
		URI:            r.stringMatch(p.dot("uri"), in.GetUri(), true),
		IgnoreURICase:  in.GetIgnoreUriCase(),
		Scheme:         r.stringMatch(p.dot("scheme"), in.GetScheme(), false),
		Method:         r.stringMatch(p.dot("method"), in.GetMethod(), false),
		Authority:      r.stringMatch(p.dot("authority"), in.GetAuthority(), false),
		Headers:        r.headerMatches(p.dot("headers"), in.GetHeaders()),
		WithoutHeaders: r.headerMatches(p.dot("withoutHeaders"), in.GetWithoutHeaders()),
		Query:          r.queryMatches(p.dot("queryParams"), in.GetQueryParams()),
		StatPrefix:     r.statPrefix(p.dot("statPrefix"), in.GetStatPrefix()),
	}
	r.warnStar(p.dot("uri"), m.URI)
	r.warnStar(p.dot("authority"), m.Authority)
	if in.GetPort() != 0 {
		m.Port, _ = r.port(p.dot("port"), int64(in.GetPort()))
	}
	m.SourceLabels, _ = r.selector(p.dot("sourceLabels"), in.GetSourceLabels())
	m.SourceNamespace = r.sourceNamespace(p.dot("sourceNamespace"), in.GetSourceNamespace())
	m.Gateways = r.gateways(p.dot("gateways"), in.GetGateways())
	r.dropSources(p, m)
	return m
}

// statPrefix reads a name of statistics. A wrong one is left out.
func (r *reader) statPrefix(p path, name string) string {
	if hasControl(name) || strings.ContainsAny(name, "\t ") {
		r.warn(p, name, "is no name of statistics and has no effect", "a name without spaces, as checkout")
		return ""
	}
	return name
}

// dropSources drops conditions on the caller beside gateways, which istiod ignores there: a request
// that a running mesh routes by the match would not be any more.
func (r *reader) dropSources(p path, m *model.HTTPMatch) {
	if len(m.Gateways) == 0 {
		return
	}
	const message, want = "has no effect beside gateways, as in Istio", "a match of its own, without gateways"
	if !m.SourceLabels.IsEmpty() {
		r.warn(p.dot("sourceLabels"), nil, message, want)
	}
	if m.SourceNamespace != "" {
		r.warn(p.dot("sourceNamespace"), m.SourceNamespace, message, want)
	}
	m.SourceLabels, m.SourceNamespace = model.Labels{}, ""
}

func (r *reader) sourceNamespace(p path, name string) string {
	if name != "" && !isName(name) {
		r.fail(p, name, "is no namespace", wantLabel)
		return ""
	}
	return name
}

// stringMatch reads a condition on a part of the request line. It returns nil for no condition, and
// for one that names no way to compare.
func (r *reader) stringMatch(p path, in *networking.StringMatch, emptyPrefix bool) *model.StringMatch {
	switch m := in.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		return &model.StringMatch{Kind: model.Exact, Value: m.Exact}
	case *networking.StringMatch_Prefix:
		if m.Prefix == "" && !emptyPrefix {
			r.fail(p.dot("prefix"), "", "is empty", "at least one character")
			return nil
		}
		return &model.StringMatch{Kind: model.Prefix, Value: m.Prefix}
	case *networking.StringMatch_Regex:
		if !r.regex(p.dot("regex"), m.Regex) {
			return nil
		}
		return &model.StringMatch{Kind: model.Regex, Value: m.Regex}
	}
	return nil
}

// headerMatches reads conditions on headers, sorted by name. An empty value requires only presence.
func (r *reader) headerMatches(p path, in map[string]*networking.StringMatch) []model.HeaderMatch {
	var out []model.HeaderMatch
	for _, name := range sortedKeys(in) {
		at := p.key(name)
		var claim []string
		switch lower := strings.ToLower(name); {
		case lower == "uri" || lower == "scheme" || lower == "method" || lower == "authority":
			r.warn(at, nil, "is ignored, as Istio documents", "the field "+lower+" of the match")
			continue
		case strings.HasPrefix(lower, "@"):
			if claim = claimOf(name); claim == nil {
				r.fail(at, name, "is no claim of a token", wantClaim)
				continue
			}
		case !isToken(lower) && !isPseudoHeader(lower):
			r.fail(at, name, "is no name of a header", wantHeader)
			continue
		}
		var match model.StringMatch
		switch m := in[name]; {
		case m.GetMatchType() == nil, m.GetRegex() == "*", isEmpty(m):
			match.Kind = model.Present
		default:
			read := r.stringMatch(at, m, false)
			if read == nil {
				continue
			}
			match = *read
		}
		if claim == nil {
			name = strings.ToLower(name)
		}
		out = append(out, model.HeaderMatch{Name: name, Match: match, Claim: claim})
	}
	slices.SortStableFunc(out, func(a, b model.HeaderMatch) int { return strings.Compare(a.Name, b.Name) })
	return out
}

const wantClaim = `"@request.auth.claims.a.b" or "@request.auth.claims[a][b]" for the claim b within a`

// claimOf returns the names of nested claims that the name of a header stands for; nil if it stands
// for none. Names with dots need brackets.
func claimOf(name string) []string {
	rest, is := model.CutClaimHeader(name)
	if !is {
		return nil
	}
	if after, dotted := strings.CutPrefix(rest, "."); dotted {
		rest = "[" + strings.ReplaceAll(after, ".", "][") + "]"
	}
	return bracketed(rest)
}

func isEmpty(m *networking.StringMatch) bool {
	return m.GetExact() == "" && m.GetPrefix() == "" && m.GetRegex() == ""
}

func isPseudoHeader(name string) bool {
	return name == ":authority" || name == ":method" || name == ":path" || name == ":scheme"
}

// queryMatches reads conditions on query parameters, sorted by name.
func (r *reader) queryMatches(p path, in map[string]*networking.StringMatch) []model.HeaderMatch {
	var out []model.HeaderMatch
	for _, name := range sortedKeys(in) {
		if name == "" {
			r.fail(p.key(name), name, "is empty", "the name of a query parameter")
			continue
		}
		match := model.StringMatch{Kind: model.Present}
		if m := in[name]; m.GetMatchType() != nil && m.GetRegex() != "*" {
			read := r.stringMatch(p.key(name), m, false)
			if read == nil {
				continue
			}
			match = *read
		}
		out = append(out, model.HeaderMatch{Name: name, Match: match})
	}
	return out
}
