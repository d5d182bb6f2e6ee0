package patch

import (
	"errors"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// PolicyFilters applies patches to the list of filters that policies come to (authz.Resource).
// Filters that they add stand in the list.
func PolicyFilters(
	of *corev3.TypedExtensionConfig, context model.PatchContext, by Patches,
) (*corev3.TypedExtensionConfig, Outcome) {
	return task[*corev3.TypedExtensionConfig]{by, context, (*run).policies}.on(of)
}

func (r *run) policies(of *corev3.TypedExtensionConfig) *corev3.TypedExtensionConfig {
	config := &filterchainv3.FilterChainConfig{}
	if of.GetTypedConfig().UnmarshalTo(config) != nil {
		return of
	}
	filters := inListener(config.GetDefaultFilterChain().GetFilters())
	for _, merges := range []bool{false, true} {
		for i, p := range r.of(model.PatchHTTPFilter) {
			if p.Operation.Merges() != merges {
				continue
			}
			of := list[*hcmv3.HttpFilter]{items: filters, merge: mergeFilter[*hcmv3.HttpFilter]}
			of.is = func(f *hcmv3.HttpFilter) bool { return f.GetName() == p.Listener.Chain.SubFilter }
			items, n, err := of.edit(p, policyFilter)
			filters = items
			r.note(i, n, err)
		}
	}
	of.TypedConfig = pb.Any(pb.ListOfFilters(inList(filters)))
	return of
}

// policyFilter makes the filter that a patch adds to the list. A list has configurations alone.
func policyFilter(p Patch) (*hcmv3.HttpFilter, error) {
	f, err := value[*hcmv3.HttpFilter](p)
	if err == nil && (f.GetConfigDiscovery() != nil || f.GetDisabled()) {
		err = errors.New("a filter among those of policies can be neither disabled nor discovered")
	}
	return f, err
}

// inListener returns the filters of a list as they would stand in a listener.
func inListener(list []*corev3.TypedExtensionConfig) (filters []*hcmv3.HttpFilter) {
	for _, f := range list {
		filters = append(filters, &hcmv3.HttpFilter{
			Name: f.GetName(), ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: f.GetTypedConfig()},
		})
	}
	return filters
}

// inList returns the filters of a listener as they stand in a list.
func inList(filters []*hcmv3.HttpFilter) (list []*corev3.TypedExtensionConfig) {
	for _, f := range filters {
		list = append(list, &corev3.TypedExtensionConfig{Name: f.GetName(), TypedConfig: f.GetTypedConfig()})
	}
	return list
}
