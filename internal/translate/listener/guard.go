package listener

import (
	"slices"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// guarded puts in front of the others, if calls are refused, a filter that answers them with 403, "RBAC: access denied".
func guarded(refuses bool, filters []*hcmv3.HttpFilter) []*hcmv3.HttpFilter {
	if !refuses {
		return filters
	}
	// An action ALLOW without a policy that could match.
	nothing := &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}
	return slices.Insert(filters, 0, httpFilter("envoy.filters.http.rbac", &httprbacv3.RBAC{Rules: nothing}))
}
