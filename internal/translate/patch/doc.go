// Package patch owns what EnvoyFilters do to Envoy's messages. Its functions are pure.
//
//	Cluster, Listener, Table, VirtualHost   ──► the changed message, or nil if it is removed
//	Adds, AddsHost, Addition                ──► whether a patch adds a resource, and its message
//
// Matches, the order of operations and their results are those of Istio. Other than there:
//
//   - A patch that cannot be applied is left out alone, and told. What the others do stays.
//   - What is added behind a filter that ends its list (a router, a TCP proxy) is put in front of
//     it: Envoy refuses a listener with a filter behind that.
//   - MERGE takes false and 0 of the value as they are: proto.Merge leaves what was there.
//   - MERGE of a transport socket into one of the same name merges the other fields of the value
//     too.
//   - MERGE_AND_REPLACE_LIST replaces lists in the configuration of filters too.
//   - Names of filters that only Istio's build of Envoy has are places: istio.metadata_exchange
//     before all filters of requests, istio.alpn and istio.stats before the router.
//
// It may import source, api/model and translate/pb.
package patch
