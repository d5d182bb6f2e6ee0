package adscript

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typematcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	listTypeURL = "type.googleapis.com/envoy.extensions.filters.http.filter_chain.v3.FilterChainConfig"
	rbacTypeURL = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC"
)

// WithFilter puts a filter of requests in front of a listener's others that is a resource of its
// own: a list of filters (FilterList), or an RBAC. While there is none, the default refuses
// everything, if closed is set.
func WithFilter(l *listenerv3.Listener, name string, fetch time.Duration, closed bool) *listenerv3.Listener {
	source := &corev3.ExtensionConfigSource{ConfigSource: overADS(fetch), TypeUrls: []string{listTypeURL, rbacTypeURL}}
	if closed {
		source.DefaultConfig = mustAny(DenyAll())
	}
	for _, chain := range l.GetFilterChains() {
		filter := chain.GetFilters()[0]
		var manager hcmv3.HttpConnectionManager
		if err := filter.GetTypedConfig().UnmarshalTo(&manager); err != nil {
			panic(err) // HTTPListener made it
		}
		manager.HttpFilters = append([]*hcmv3.HttpFilter{{
			Name: name, ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: source},
		}}, manager.HttpFilters...)
		filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: mustAny(&manager)}
	}
	return l
}

// FilterList is a resource of type Filters: filters that act one after the other, and change at
// once. They have the same name, which is no matter.
func FilterList(name string, filters ...proto.Message) *corev3.TypedExtensionConfig {
	list := &filterchainv3.FilterChainConfig{}
	if len(filters) > 0 {
		list.DefaultFilterChain = &filterchainv3.FilterChain{}
	}
	for _, f := range filters {
		list.DefaultFilterChain.Filters = append(list.DefaultFilterChain.Filters, &corev3.TypedExtensionConfig{
			Name: "envoy.filters.http.rbac", TypedConfig: mustAny(f),
		})
	}
	return &corev3.TypedExtensionConfig{Name: name, TypedConfig: mustAny(list)}
}

// DenyAll refuses every request.
func DenyAll() *httprbacv3.RBAC {
	return &httprbacv3.RBAC{Rules: &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}}
}

// DenyPath refuses requests for a path.
func DenyPath(path string) *httprbacv3.RBAC {
	return &httprbacv3.RBAC{Rules: &rbacv3.RBAC{
		Action: rbacv3.RBAC_DENY,
		Policies: map[string]*rbacv3.Policy{"p": {
			Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_UrlPath{UrlPath: exactPath(path)}}},
			Principals:  []*rbacv3.Principal{{Identifier: &rbacv3.Principal_Any{Any: true}}},
		}},
	}}
}

// Ask is a filter that asks an authorizer about each request, by HTTP.
func Ask(cluster string) *extauthzv3.ExtAuthz {
	return &extauthzv3.ExtAuthz{
		TransportApiVersion: corev3.ApiVersion_V3,
		Services: &extauthzv3.ExtAuthz_HttpService{HttpService: &extauthzv3.HttpService{
			ServerUri: &corev3.HttpUri{
				Uri: "http://a.test", Timeout: durationpb.New(patience),
				HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster},
			},
		}},
	}
}

// BadRegex is a filter with a regular expression that Envoy finds wrong only when it puts the
// filter to use.
func BadRegex() *httprbacv3.RBAC {
	m := DenyPath("/")
	m.GetRules().GetPolicies()["p"].GetPermissions()[0].GetUrlPath().GetPath().MatchPattern =
		&typematcherv3.StringMatcher_SafeRegex{SafeRegex: &typematcherv3.RegexMatcher{Regex: "("}}
	return m
}

func exactPath(path string) *typematcherv3.PathMatcher {
	return &typematcherv3.PathMatcher{Rule: &typematcherv3.PathMatcher_Path{
		Path: &typematcherv3.StringMatcher{MatchPattern: &typematcherv3.StringMatcher_Exact{Exact: path}},
	}}
}
