package pb

import (
	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
)

// FilterList is the type of a list of filters of requests (ListOfFilters).
const FilterList = "type.googleapis.com/envoy.extensions.common.matching.v3.ExtensionWithMatcher"

// ListOfFilters makes one filter of some, which act one after the other; there must be one at
// least. As a resource they change at once: no request meets some of the old ones and some of the
// new. It is envoy.filters.http.composite with a matcher that matches everything.
func ListOfFilters(filters []*corev3.TypedExtensionConfig) *matchingv3.ExtensionWithMatcher {
	all := &compositev3.ExecuteFilterAction{
		FilterChain: &compositev3.FilterChainConfiguration{TypedConfig: filters},
	}
	return &matchingv3.ExtensionWithMatcher{
		ExtensionConfig: &corev3.TypedExtensionConfig{
			Name: "envoy.filters.http.composite", TypedConfig: Any(&compositev3.Composite{}),
		},
		XdsMatcher: &xdsmatcherv3.Matcher{OnNoMatch: &xdsmatcherv3.Matcher_OnMatch{
			OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{
				Action: &xdscorev3.TypedExtensionConfig{Name: "all", TypedConfig: Any(all)},
			},
		}},
	}
}
