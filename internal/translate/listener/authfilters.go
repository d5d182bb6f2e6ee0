package listener

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// AuthFilters are the filters that decide on calls before they are handed on, canonical. A nil
// *AuthFilters has none.
type AuthFilters struct {
	// HTTP are filters of requests, and TCP those of other connections, in their order.
	HTTP, TCP []Filter
	// Apart, unless it is empty, is the name of the resource (ECDS) that the filters of requests
	// are, in place of HTTP.
	Apart string
	// ClosesTCP closes connections that are not HTTP. Envoy's filters look at a connection when its
	// first bytes come, and a server that speaks first is faster.
	ClosesTCP bool
}

// Filter is a filter that another translation made.
type Filter struct {
	Name string
	// Type and Config are those of its encoded configuration.
	Type, Config string
}

func (f Filter) config() *anypb.Any { return &anypb.Any{TypeUrl: f.Type, Value: []byte(f.Config)} }

// http puts the filters of requests in front of others.
func (a *AuthFilters) http(filters []*hcmv3.HttpFilter) []*hcmv3.HttpFilter {
	if a == nil {
		return filters
	}
	if a.Apart != "" {
		return slices.Insert(filters, 0, discovered(a.Apart))
	}
	own := make([]*hcmv3.HttpFilter, 0, len(a.HTTP)+len(filters))
	for _, f := range a.HTTP {
		own = append(own, &hcmv3.HttpFilter{
			Name: f.Name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: f.config()},
		})
	}
	return append(own, filters...)
}

// tcp puts the filters of connections that are not HTTP in front of others, if they decide
// anything.
func (a *AuthFilters) tcp(filters ...*listenerv3.Filter) []*listenerv3.Filter {
	if a == nil || a.ClosesTCP {
		return filters
	}
	own := make([]*listenerv3.Filter, 0, len(a.TCP)+len(filters))
	for _, f := range a.TCP {
		own = append(own, &listenerv3.Filter{
			Name: f.Name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: f.config()},
		})
	}
	return append(own, filters...)
}

// discovered is a list of filters that is a resource of its own. Without the resource every request
// is refused.
func discovered(name string) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{
		ConfigDiscovery: pb.Discovered(pb.FilterList, pb.DenyAll()),
	}}
}

// requests reports whether there are filters of requests.
func (a *AuthFilters) requests() bool { return a != nil && (len(a.HTTP) > 0 || a.Apart != "") }

// closes reports whether connections that are not HTTP are closed.
func (a *AuthFilters) closes() bool { return a != nil && a.ClosesTCP }

// withDenyAll puts a filter in front of the others that answers every call with 403, "RBAC: access
// denied", if calls are refused.
func withDenyAll(refuses bool, filters []*hcmv3.HttpFilter) []*hcmv3.HttpFilter {
	if !refuses {
		return filters
	}
	return slices.Insert(filters, 0, httpFilter(pb.RBACFilter, pb.DenyAll()))
}
