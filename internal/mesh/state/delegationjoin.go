package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// maxJoinedMatches is how many conditions a delegation may come to: each of a root's is combined
// with each of the delegate's, so that two objects of a megabyte could take all memory.
const maxJoinedMatches = 10_000

// joined is a root with its delegates in the making.
type joined struct {
	*delegations
	root   *model.RootRoutes
	http   []*model.HTTPRoute
	status *model.DelegationStatus
}

// joinRoot returns the VirtualService that a root comes to with its delegates, and how.
func (d *delegations) joinRoot(s *Snapshot, root *model.RootRoutes) (*model.VirtualService, *model.DelegationStatus) {
	j := &joined{delegations: d, root: root, status: &model.DelegationStatus{Meta: root.Meta}}
	rest := root.Delegations
	for i, route := range root.HTTP {
		if len(rest) == 0 || rest[0].Route != i {
			j.add(route, model.RouteOrigin{Route: i})
			continue
		}
		j.delegate(s, &rest[0])
		rest = rest[1:]
	}
	v := root.VirtualService
	v.HTTP = j.http
	return &v, j.status
}

func (j *joined) add(route *model.HTTPRoute, from model.RouteOrigin) {
	j.http = append(j.http, route)
	j.status.Routes = append(j.status.Routes, from)
}

// delegate adds the routes of the delegate that a route of the root names. If there is no such
// delegate, the route answers 503: without it, requests would go to the next one.
func (j *joined) delegate(s *Snapshot, at *model.Delegation) {
	d, mistake := s.delegateFor(j.root, at.To)
	if d != nil && j.matchesOf(at, d) > maxJoinedMatches {
		mistake = model.DelegationMistake{
			To: at.To, Closed: true,
			Message: fmt.Sprintf("comes to more than %d combinations of matches", maxJoinedMatches),
			Want:    "fewer matches in one of the two",
		}
		d = nil
	}
	if d == nil {
		j.close(at, mistake)
		return
	}
	for i := range d.HTTP {
		j.addRoute(at, d, i)
	}
}

// close has a route that delegates answer 503.
func (j *joined) close(at *model.Delegation, because model.DelegationMistake) {
	because.Route = at.Route
	j.status.Mistakes = append(j.status.Mistakes, because)
	route := j.root.HTTP[at.Route]
	closed := &model.HTTPRoute{Name: route.Name, Matches: route.Matches, Broken: "delegate: " + because.Message}
	j.add(j.routes.Canonical(closed), model.RouteOrigin{Route: at.Route})
}

// matchesOf returns how many matches a delegation may come to.
func (j *joined) matchesOf(at *model.Delegation, d *model.DelegateRoutes) int {
	n := 0
	for _, r := range d.HTTP {
		n += max(1, len(r.Matches))
	}
	return n * max(1, len(j.root.HTTP[at.Route].Matches))
}

// addRoute adds a route of a delegate, unless it is for requests that the root's route does not
// take.
func (j *joined) addRoute(at *model.Delegation, d *model.DelegateRoutes, i int) {
	root, own, given := j.root.HTTP[at.Route], d.HTTP[i], &d.Given[i]
	matches, outside := j.narrowed(root.Matches, own.Matches)
	if outside >= 0 {
		j.status.Mistakes = append(j.status.Mistakes, model.DelegationMistake{
			Route: at.Route, To: at.To,
			Message: fmt.Sprintf(
				"its spec.http[%d] is left out: match[%d] is not within a match of the route that delegates",
				i, outside,
			),
			Want: "a match that takes less: a longer prefix, an exact value, or further conditions",
		})
		return
	}
	out := *own
	out.Name, out.Matches = joinedName(root.Name, own.Name), matches
	from := model.RouteOrigin{Route: at.Route, Delegate: at.To, Index: i}
	if own.Broken == "" {
		inherit(&out, given, root, &at.Given)
		from.RootMirrors = len(out.Mirrors) > 0 && !given.Mirror && !given.Mirrors
	}
	j.add(j.routes.Canonical(&out), from)
}

// joinedName is a name of the root's with one of the delegate's.
func joinedName(root, own string) string {
	if root == "" || own == "" {
		return cmp.Or(root, own)
	}
	return root + "-" + own
}

// inherit takes the settings that a route of a delegate leaves out from the route that delegates.
// Those of forwarding do not go with a redirect or a direct response.
func inherit(out *model.HTTPRoute, own *model.Given, root *model.HTTPRoute, given *model.Given) {
	if root.Direct != nil && out.Redirect == nil && out.Direct == nil {
		out.Direct, out.Destinations = root.Direct, nil
	}
	if !own.CORS {
		out.CORS = root.CORS
	}
	if !own.Headers {
		out.Headers = root.Headers
	}
	if len(out.Destinations) == 0 {
		out.Rewrite, out.Timeout, out.Retries, out.Fault, out.Mirrors = nil, 0, nil, nil, nil
		return
	}
	if !own.Timeout {
		out.Timeout = root.Timeout
	}
	if !own.Retries {
		out.Retries = root.Retries
	}
	if !own.Fault {
		out.Fault = root.Fault
	}
	out.Rewrite = joinedRewrite(own, given)
	out.Mirrors = joinedMirrors(out.Mirrors, own, root.Mirrors, given)
}

// joinedRewrite returns the rewrite of a route that delegates unless the delegate has one, with the
// authority that counts in Istio.
func joinedRewrite(own, root *model.Given) *model.Rewrite {
	headers := own.HeaderAuthority
	if !own.Headers {
		headers = root.HeaderAuthority
	}
	var out model.Rewrite
	if r := cmp.Or(own.Rewrite, root.Rewrite); r != nil {
		out = *r
	}
	out.Authority = cmp.Or(own.DestinationAuthority, out.Authority, headers)
	if out == (model.Rewrite{}) {
		return nil
	}
	return &out
}

// joinedMirrors returns the mirrors of a route: the field mirror, its share and the field mirrors
// are inherited each for itself.
func joinedMirrors(
	ownMirrors []model.Mirror, own *model.Given, rootMirrors []model.Mirror, root *model.Given,
) []model.Mirror {
	var out []model.Mirror
	switch {
	case own.Mirror:
		out = append(out, ownMirrors[0])
		ownMirrors = ownMirrors[1:]
	case root.Mirror:
		out = append(out, rootMirrors[0])
	}
	if root.Mirror {
		rootMirrors = rootMirrors[1:]
	}
	if percent := cmp.Or(own.MirrorPercent, root.MirrorPercent); percent != nil && len(out) > 0 {
		out[0].Percent = *percent
	}
	if own.Mirrors {
		return append(out, ownMirrors...)
	}
	return append(out, rootMirrors...)
}

// narrowed returns the conditions of a route of a delegate within those of the route that
// delegates. As in Istio each of the delegate's has to be within one of the root's; outside is the
// first that is not, else -1.
func (d *delegations) narrowed(root, own []*model.HTTPMatch) (out []*model.HTTPMatch, outside int) {
	if len(root) == 0 {
		return own, -1
	}
	if len(own) == 0 {
		return root, -1
	}
	for i, m := range own {
		before := len(out)
		for _, r := range root {
			if isWithin(r, m) {
				out = append(out, d.matches.Canonical(joinedMatch(r, m)))
			}
		}
		if len(out) == before {
			return nil, i
		}
	}
	return out, -1
}

// joinedMatch returns the conditions of both; those of the delegate are narrower. Conditions on the
// caller have no effect beside gateways, as in convert.
func joinedMatch(root, own *model.HTTPMatch) *model.HTTPMatch {
	out := *own
	out.Name = joinedName(root.Name, own.Name)
	out.URI, out.Scheme = cmp.Or(own.URI, root.URI), cmp.Or(own.Scheme, root.Scheme)
	out.Method, out.Authority = cmp.Or(own.Method, root.Method), cmp.Or(own.Authority, root.Authority)
	out.Headers = joinedHeaders(root.Headers, own.Headers)
	out.WithoutHeaders = joinedHeaders(root.WithoutHeaders, own.WithoutHeaders)
	out.Query = joinedHeaders(root.Query, own.Query)
	out.Port = cmp.Or(own.Port, root.Port)
	out.SourceNamespace = cmp.Or(own.SourceNamespace, root.SourceNamespace)
	out.SourceLabels = joinedLabels(root.SourceLabels, own.SourceLabels)
	if len(own.Gateways) == 0 {
		out.Gateways = root.Gateways
	}
	if len(out.Gateways) > 0 {
		out.SourceLabels, out.SourceNamespace = model.Labels{}, ""
	}
	return &out
}

// joinedHeaders returns the conditions of both, sorted by name; the delegate's replace the root's
// of the same name.
func joinedHeaders(root, own []model.HeaderMatch) []model.HeaderMatch {
	if len(root) == 0 {
		return own
	}
	out := slices.Clone(own)
	for _, h := range root {
		if !slices.ContainsFunc(own, func(o model.HeaderMatch) bool { return o.Name == h.Name }) {
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, func(a, o model.HeaderMatch) int { return strings.Compare(a.Name, o.Name) })
	return out
}

func joinedLabels(root, own model.Labels) model.Labels {
	switch {
	case root.IsEmpty():
		return own
	case own.IsEmpty():
		return root
	}
	all := root.Map()
	for key, value := range own.Map() {
		all[key] = value
	}
	return model.LabelsOf(all)
}

// isWithin reports whether a match of a delegate is within one of the root's, by Istio's rules.
func isWithin(root, own *model.HTTPMatch) bool {
	return isNarrower(root.URI, own.URI) && isNarrower(root.Scheme, own.Scheme) &&
		isNarrower(root.Method, own.Method) && isNarrower(root.Authority, own.Authority) &&
		areNarrower(root.Headers, own.Headers) && areNarrower(root.WithoutHeaders, own.WithoutHeaders) &&
		areNarrower(root.Query, own.Query) && root.IgnoreURICase == own.IgnoreURICase &&
		(root.Port == 0 || own.Port == 0 || root.Port == own.Port) &&
		(root.SourceNamespace == "" || own.SourceNamespace == root.SourceNamespace) &&
		areCompatible(root.SourceLabels, own.SourceLabels) && areAmong(root.Gateways, own.Gateways)
}

// isNarrower reports whether a condition may stand in the place of the root's. Of a regular
// expression beside another condition nobody can tell.
func isNarrower(root, own *model.StringMatch) bool {
	if root == nil || own == nil {
		return true
	}
	if root.Value == "" || own.Value == "" {
		return false
	}
	switch root.Kind {
	case model.Exact:
		return *own == *root
	case model.Prefix:
		return (own.Kind == model.Prefix || own.Kind == model.Exact) && strings.HasPrefix(own.Value, root.Value)
	}
	return false
}

func areNarrower(root, own []model.HeaderMatch) bool {
	for i := range own {
		for j := range root {
			if root[j].Name == own[i].Name && !isNarrower(&root[j].Match, &own[i].Match) {
				return false
			}
		}
	}
	return true
}

func areCompatible(root, own model.Labels) bool {
	if root.IsEmpty() || own.IsEmpty() {
		return true
	}
	for key, value := range own.Map() {
		if of, has := root.Get(key); has && of != value {
			return false
		}
	}
	return true
}

func areAmong(root, own []string) bool {
	outside := func(name string) bool { return !slices.Contains(root, name) }
	return len(root) == 0 || len(own) == 0 || !slices.ContainsFunc(own, outside)
}
