package envoymodel

import (
	"bytes"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// wrongExpression is one that Envoy finds wrong when it puts a filter to use.
const wrongExpression = "(not an expression"

// namedFilter is a list of one filter, which refuses requests for a path with its content. A wrong
// one has an expression in place of the path.
func (r Resource) namedFilter() proto.Message {
	path := &matcherv3.StringMatcher{
		MatchPattern: &matcherv3.StringMatcher_Exact{Exact: fmt.Sprintf("/%d", r.content)},
	}
	if r.has(flagWrong) {
		path.MatchPattern = &matcherv3.StringMatcher_SafeRegex{
			SafeRegex: &matcherv3.RegexMatcher{Regex: fmt.Sprintf("%s %d", wrongExpression, r.content)},
		}
	}
	refuses := pack(&httprbacv3.RBAC{Rules: &rbacv3.RBAC{
		Action: rbacv3.RBAC_DENY,
		Policies: map[string]*rbacv3.Policy{"p": {
			Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_UrlPath{
				UrlPath: &matcherv3.PathMatcher{Rule: &matcherv3.PathMatcher_Path{Path: path}},
			}}},
			Principals: []*rbacv3.Principal{{Identifier: &rbacv3.Principal_Any{Any: true}}},
		}},
	}})
	f := &corev3.TypedExtensionConfig{Name: r.Name, TypedConfig: pack(&filterchainv3.FilterChainConfig{
		DefaultFilterChain: &filterchainv3.FilterChain{
			Filters: []*corev3.TypedExtensionConfig{{Name: "rbac", TypedConfig: refuses}},
		},
	})}
	if r.has(flagInvalid) {
		f.Name = "" // a name is required
	}
	return f
}

func isWrongFilter(f *corev3.TypedExtensionConfig) bool {
	return bytes.Contains(f.GetTypedConfig().GetValue(), []byte(wrongExpression))
}

// discovered names a filter, and refuses everything without it.
func (r Resource) discovered(name string) *hcmv3.HttpFilter {
	closed := pack(&httprbacv3.RBAC{Rules: &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}})
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{
		ConfigDiscovery: &corev3.ExtensionConfigSource{
			ConfigSource: r.filterSource(), DefaultConfig: closed,
			TypeUrls: []string{closed.GetTypeUrl(), pack(&filterchainv3.FilterChainConfig{}).GetTypeUrl()},
		},
	}}
}

func (r Resource) filterSource() *corev3.ConfigSource {
	s := r.source()
	if r.has(flagTimedFilter) {
		s.InitialFetchTimeout = durationpb.New(FetchTimeout)
	}
	return s
}
