package serve

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// istioFilters are the filters of Istio's build of Envoy that keep its standard metrics and
// exchange what they need with peers, by category (Node.extensions).
func istioFilters() map[string][]string {
	return map[string][]string{
		"envoy.filters.http": {"envoy.filters.http.istio_stats", "envoy.filters.http.peer_metadata"},
		"envoy.filters.network": {
			"envoy.filters.network.istio_stats", "envoy.filters.network.metadata_exchange",
		},
		"envoy.filters.upstream_network": {"envoy.filters.network.upstream.metadata_exchange"},
	}
}

// oldestWithCEL is the oldest Envoy whose format strings have %CEL()% by themselves, which tells
// peers without Istio's filters of a workload.
var oldestWithCEL = Release{Major: 1, Minor: 34}

// hasIstioFilters reports whether a node has all of Istio's filters. Every Envoy sends the names of
// all extensions that it was built with. A stock Envoy refuses a listener that names another one.
func hasIstioFilters(n *corev3.Node) bool {
	missing := istioFilters()
	for _, e := range n.GetExtensions() {
		if names, wanted := missing[e.GetCategory()]; wanted && !e.GetDisabled() {
			missing[e.GetCategory()] = slices.DeleteFunc(names, func(name string) bool { return name == e.GetName() })
		}
	}
	for _, names := range missing {
		if len(names) > 0 {
			return false
		}
	}
	return !releaseOf(n).before(oldestWithCEL)
}
