package pb

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	"google.golang.org/protobuf/proto"
)

// Discovered says that a filter of requests is a resource of its own (ECDS), of a type. The
// fallback takes its place without the resource: when the fetch times out, when the first one is
// refused, and when it is removed.
func Discovered(typeURL string, fallback proto.Message) *corev3.ExtensionConfigSource {
	instead := Any(fallback)
	return &corev3.ExtensionConfigSource{
		ConfigSource:  OverADS(),
		DefaultConfig: instead,
		TypeUrls:      []string{typeURL, instead.GetTypeUrl()},
	}
}

// FilterList is the type of a list of filters of requests (ListOfFilters).
const FilterList = "type.googleapis.com/envoy.extensions.filters.http.filter_chain.v3.FilterChainConfig"

// ListOfFilters makes one filter of some, which act one after the other as if they stood in the
// listener. Without any it accepts everything. As a resource they change at once: no request meets
// some of the old ones and some of the new.
func ListOfFilters(filters []*corev3.TypedExtensionConfig) *filterchainv3.FilterChainConfig {
	if len(filters) == 0 {
		return &filterchainv3.FilterChainConfig{} // Envoy refuses a chain without filters
	}
	return &filterchainv3.FilterChainConfig{DefaultFilterChain: &filterchainv3.FilterChain{Filters: filters}}
}
