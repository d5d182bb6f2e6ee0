package meshgen

import (
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/source"
)

// FiltersOfANamespace is how many Filters has.
const FiltersOfANamespace = 200

// Filters is what Mesh leaves out: FiltersOfANamespace EnvoyFilters of one namespace, each for
// another workload. The proxy of the namespace (Proxies) is selected by the first.
func Filters(namespace int) []source.Change {
	var all []source.Change
	for i := range FiltersOfANamespace {
		all = append(all, Upsert(EnvoyFilter(namespace, i, 0)))
	}
	return all
}

// EnvoyFilter is the one of a namespace with a number. It has requests to its workload pass a
// script, which is another for each variant.
func EnvoyFilter(namespace, i, variant int) *networkingv1alpha3.EnvoyFilter {
	f := &networkingv1alpha3.EnvoyFilter{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace(namespace), Name: fmt.Sprintf("filter-%04d", i)},
	}
	f.Spec.WorkloadSelector = &networking.WorkloadSelector{Labels: map[string]string{"app": workloadOf(namespace, i)}}
	f.Spec.ConfigPatches = []*networking.EnvoyFilter_EnvoyConfigObjectPatch{{
		ApplyTo: networking.EnvoyFilter_HTTP_FILTER,
		Match: &networking.EnvoyFilter_EnvoyConfigObjectMatch{
			Context:     networking.EnvoyFilter_SIDECAR_INBOUND,
			ObjectTypes: &networking.EnvoyFilter_EnvoyConfigObjectMatch_Listener{Listener: routersPlace()},
		},
		Patch: &networking.EnvoyFilter_Patch{
			Operation: networking.EnvoyFilter_Patch_INSERT_BEFORE, Value: script(variant),
		},
	}}
	return f
}

// routersPlace is the filter of requests that sends them on.
func routersPlace() *networking.EnvoyFilter_ListenerMatch {
	router := &networking.EnvoyFilter_ListenerMatch_SubFilterMatch{Name: "envoy.filters.http.router"}
	filter := &networking.EnvoyFilter_ListenerMatch_FilterMatch{
		Name: "envoy.filters.network.http_connection_manager", SubFilter: router,
	}
	return &networking.EnvoyFilter_ListenerMatch{
		FilterChain: &networking.EnvoyFilter_ListenerMatch_FilterChainMatch{Filter: filter},
	}
}

// script is a filter of requests that runs a script.
func script(variant int) *structpb.Struct {
	code := fmt.Sprintf("function envoy_on_request(handle) handle:headers():add('x-variant', '%06d') end", variant)
	text := func(s string) *structpb.Value { return structpb.NewStringValue(s) }
	fields := func(f map[string]*structpb.Value) *structpb.Value {
		return structpb.NewStructValue(&structpb.Struct{Fields: f})
	}
	return fields(map[string]*structpb.Value{
		"name": text("script"),
		"typed_config": fields(map[string]*structpb.Value{
			"@type":               text("type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua"),
			"default_source_code": fields(map[string]*structpb.Value{"inline_string": text(code)}),
		}),
	}).GetStructValue()
}
