package pb

import (
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// TokenFilter is the filter that verifies tokens, and TokenPayload where it leaves the payload of a
// verified one in its dynamic metadata.
const (
	TokenFilter  = "envoy.filters.http.jwt_authn"
	TokenPayload = "payload"
)

// ExtAuthzFilter is the filter that asks somebody else about a request.
const ExtAuthzFilter = "envoy.filters.http.ext_authz"

// The filters that policies come to for connections that are not HTTP.
const (
	ConnectionRBACFilter     = "envoy.filters.network.rbac"
	ConnectionExtAuthzFilter = "envoy.filters.network.ext_authz"
)

// PolicyFilters is the name of the list of filters that the policies of a proxy come to, where it
// is a resource of its own.
const PolicyFilters = "lateen.policy-filters"

// Claim matches a claim of the verified token, by the names of nested ones.
func Claim(path []string, value *matcherv3.ValueMatcher) *matcherv3.MetadataMatcher {
	return Metadata(TokenFilter, append([]string{TokenPayload}, path...), value)
}

// Metadata matches a value in the dynamic metadata of a filter.
func Metadata(filter string, path []string, value *matcherv3.ValueMatcher) *matcherv3.MetadataMatcher {
	m := &matcherv3.MetadataMatcher{Filter: filter, Value: value}
	for _, key := range path {
		segment := &matcherv3.MetadataMatcher_PathSegment_Key{Key: key}
		m.Path = append(m.Path, &matcherv3.MetadataMatcher_PathSegment{Segment: segment})
	}
	return m
}

// TextOrList matches a value that is a text, or a list with a text, which matches.
func TextOrList(text *matcherv3.ValueMatcher) *matcherv3.ValueMatcher {
	return AnyValue([]*matcherv3.ValueMatcher{text, InList(text)})
}

// InList matches a list with a value that matches.
func InList(m *matcherv3.ValueMatcher) *matcherv3.ValueMatcher {
	one := &matcherv3.ListMatcher{MatchPattern: &matcherv3.ListMatcher_OneOf{OneOf: m}}
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_ListMatch{ListMatch: one}}
}

// AnyValue matches what one of some matchers does.
func AnyValue(list []*matcherv3.ValueMatcher) *matcherv3.ValueMatcher {
	if len(list) == 1 {
		return list[0]
	}
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_OrMatch{
		OrMatch: &matcherv3.OrMatcher{ValueMatchers: list},
	}}
}

// TextValue matches a value that is a text.
func TextValue(m *matcherv3.StringMatcher) *matcherv3.ValueMatcher {
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: m}}
}
