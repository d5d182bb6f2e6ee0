package pb

import (
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	rbacfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
)

// RBACFilter is the filter of requests that rules about callers accept or refuse.
const RBACFilter = "envoy.filters.http.rbac"

// DenyAll returns a configuration of RBACFilter that answers every request with 403, "RBAC: access
// denied": its action is ALLOW, and it has no policy that could match.
func DenyAll() *httprbacv3.RBAC {
	return &httprbacv3.RBAC{Rules: &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}}
}

// AllowAll returns a configuration of RBACFilter that accepts every request: it has no rules.
func AllowAll() *httprbacv3.RBAC { return &httprbacv3.RBAC{} }

// DenyConnections returns a configuration of ConnectionRBACFilter that closes every connection.
func DenyConnections() *rbacfilterv3.RBAC {
	return &rbacfilterv3.RBAC{StatPrefix: "closed.", Rules: &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}}
}

// AllowConnections returns a configuration of ConnectionRBACFilter that accepts every connection.
func AllowConnections() *rbacfilterv3.RBAC { return &rbacfilterv3.RBAC{StatPrefix: "open."} }
