package listener

import (
	"slices"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// withDenyAll puts a filter in front of the others that answers every call with 403, "RBAC: access
// denied", if calls are refused.
func withDenyAll(refuses bool, filters []*hcmv3.HttpFilter) []*hcmv3.HttpFilter {
	if !refuses {
		return filters
	}
	// An action ALLOW without a policy that could match.
	nothing := &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}
	return slices.Insert(filters, 0, httpFilter("envoy.filters.http.rbac", &httprbacv3.RBAC{Rules: nothing}))
}
