package convert

import (
	"fmt"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// maxNeverReached is how many routes and matches of a VirtualService that are never reached are
// told one by one.
const maxNeverReached = 10

// checkReachable warns of routes and matches that no request reaches, since an earlier one takes
// all of their requests. One that delegates takes those that its delegate takes. The cost follows
// the number of matches and the length of their paths.
func (r *reader) checkReachable(p path, routes []*model.HTTPRoute, delegations []model.Delegation) {
	if len(routes) < 2 && (len(routes) == 0 || len(routes[0].Matches) < 2) {
		return
	}
	const want = "the more specific one first"
	told, more := 0, 0
	tell := func(p path, why string) {
		if told == maxNeverReached {
			more++
			return
		}
		told++
		r.warn(p, nil, "is never reached: "+why, want)
	}
	before := earlierMatches{
		none: contentOf(&model.HTTPMatch{}), equal: map[[16]byte]string{}, prefixes: map[string]string{},
	}
	for i, route := range routes {
		at := p.at(i)
		takes := route.Broken == "" // the conditions of a broken one may be missing
		if len(delegations) > 0 && delegations[0].Route == i {
			takes, delegations = false, delegations[1:]
		}
		if before.all != "" {
			tell(at, before.all+" matches every request")
			continue
		}
		for j, m := range route.Matches {
			content := contentOf(m)
			if by := before.covering(m, content); by != "" {
				of := at
				if len(route.Matches) > 1 {
					of = at.dot("match").at(j)
				}
				tell(of, by+" takes all of its requests")
			}
			if takes {
				before.add(m, content, fmt.Sprintf("http[%d].match[%d]", i, j))
			}
		}
		if len(route.Matches) == 0 && takes {
			before.all = fmt.Sprintf("http[%d]", i)
		}
	}
	if more > 0 {
		r.warn(p, nil, fmt.Sprintf("%d more routes and matches are never reached", more), want)
	}
}

// earlierMatches are the matches before one, by what they cover.
type earlierMatches struct {
	none     [16]byte            // the content of a match without conditions
	all      string              // a route or match without conditions
	equal    map[[16]byte]string // by content
	prefixes map[string]string   // those whose only condition is this prefix of the path
}

// covering returns an earlier match that takes all requests of m, whose content is given; "" if
// there is none.
func (e *earlierMatches) covering(m *model.HTTPMatch, content [16]byte) string {
	if e.all != "" {
		return e.all
	}
	if by := e.equal[content]; by != "" {
		return by
	}
	if m.URI == nil || m.IgnoreURICase || m.URI.Kind != model.Prefix && m.URI.Kind != model.Exact {
		return ""
	}
	for end := range len(m.URI.Value) + 1 {
		if by := e.prefixes[m.URI.Value[:end]]; by != "" {
			return by
		}
	}
	return ""
}

func (e *earlierMatches) add(m *model.HTTPMatch, content [16]byte, name string) {
	if content == e.none {
		e.all = name
		return
	}
	if e.equal[content] != "" {
		return
	}
	e.equal[content] = name
	if m.URI == nil || m.URI.Kind != model.Prefix || e.prefixes[m.URI.Value] != "" {
		return
	}
	if content == contentOf(&model.HTTPMatch{URI: m.URI}) {
		e.prefixes[m.URI.Value] = name
	}
}

// contentOf identifies the conditions of a match.
func contentOf(m *model.HTTPMatch) [16]byte {
	unnamed := *m
	unnamed.Name = ""
	return model.Fingerprint(&unnamed)
}

// warnStar warns of a "*" at the end of a prefix or exact value, where it is an ordinary character.
func (r *reader) warnStar(p path, m *model.StringMatch) {
	if m == nil || m.Kind != model.Exact && m.Kind != model.Prefix || !strings.HasSuffix(m.Value, "*") {
		return
	}
	field := "exact"
	if m.Kind == model.Prefix {
		field = "prefix"
	}
	want := "no condition"
	if prefix := strings.TrimRight(m.Value, "*"); prefix != "" {
		want = fmt.Sprintf("prefix %q", prefix)
	}
	r.warn(p.dot(field), m.Value, `"*" is no wildcard here: it matches this character`, want)
}
