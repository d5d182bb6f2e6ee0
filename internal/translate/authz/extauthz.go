package authz

import (
	"net/url"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpextauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	tcpextauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ext_authz/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// What the names of rules that ask a provider begin with, before its name: as in Istio, and of
// those that ask after tokens are verified.
const (
	earlyCustom = "istio-ext-authz-"
	lateCustom  = "istio-ext-authz+token-"
)

// prefix begins the names of the rules of a check. The rules stand in a filter that refuses nothing
// and leaves the name of the rule that matched. The provider's filter is in force if the name
// begins with the prefix and what follows it in all names, "ns[". No prefix with this is how that
// of another check begins, because the escaped name has no bracket.
func (c check) prefix() string {
	if c.late {
		return lateCustom + url.PathEscape(c.provider.Name) + "-"
	}
	return earlyCustom + url.PathEscape(c.provider.Name) + "-"
}

// http asks the provider about a request.
func (c check) http() *httpextauthzv3.ExtAuthz {
	of := c.provider
	check := &httpextauthzv3.ExtAuthz{
		TransportApiVersion:   corev3.ApiVersion_V3,
		FailureModeAllow:      of.FailOpen,
		ClearRouteCache:       of.ClearRouteCache,
		WithRequestBody:       body(of),
		FilterEnabledMetadata: c.matched(pb.RBACFilter),
	}
	if of.StatusOnError != 0 {
		check.StatusOnError = &typev3.HttpStatus{Code: typev3.StatusCode(of.StatusOnError)}
	}
	if of.GRPC {
		check.Services = &httpextauthzv3.ExtAuthz_GrpcService{GrpcService: grpcService(of)}
		return check
	}
	check.AllowedHeaders = headerNames(of.RequestHeaders)
	check.Services = &httpextauthzv3.ExtAuthz_HttpService{HttpService: httpService(of)}
	return check
}

// tcp asks the provider about a connection.
func (c check) tcp() *tcpextauthzv3.ExtAuthz {
	of := c.provider
	return &tcpextauthzv3.ExtAuthz{
		StatPrefix:            tcpPrefix,
		TransportApiVersion:   corev3.ApiVersion_V3,
		FailureModeAllow:      of.FailOpen,
		GrpcService:           grpcService(of),
		FilterEnabledMetadata: c.matched(tcpRBAC),
	}
}

// matched matches calls for which a rule of the check matched; nil matches every call.
func (c check) matched(filter string) *matcherv3.MetadataMatcher {
	if c.asksAlways() {
		return nil
	}
	name := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: c.prefix() + "ns["}}
	return pb.Metadata(filter, []string{customPrefix + "shadow_effective_policy_id"}, pb.TextValue(name))
}

func body(of *model.ExtAuthz) *httpextauthzv3.BufferSettings {
	if of.Body == nil {
		return nil
	}
	return &httpextauthzv3.BufferSettings{
		MaxRequestBytes: of.Body.MaxBytes, AllowPartialMessage: of.Body.Partial, PackAsBytes: of.Body.Raw,
	}
}

// grpcService calls the provider's cluster. The cluster's name is no valid authority, so the bars
// in it are replaced, as in Istio.
func grpcService(of *model.ExtAuthz) *corev3.GrpcService {
	cluster := pb.OutboundCluster(of.Host, of.Port, "")
	return &corev3.GrpcService{
		Timeout: pb.Duration(of.Timeout),
		TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
			ClusterName: cluster, Authority: strings.ReplaceAll(cluster, "|", "_."),
		}},
	}
}

func httpService(of *model.ExtAuthz) *httpextauthzv3.HttpService {
	service := &httpextauthzv3.HttpService{
		PathPrefix: of.PathPrefix,
		ServerUri: &corev3.HttpUri{
			Uri:              "http://" + string(of.Host),
			Timeout:          pb.Duration(of.Timeout),
			HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: pb.OutboundCluster(of.Host, of.Port, "")},
		},
	}
	if len(of.AddHeaders) > 0 {
		service.AuthorizationRequest = &httpextauthzv3.AuthorizationRequest{}
		for _, h := range of.AddHeaders {
			service.AuthorizationRequest.HeadersToAdd = append(service.AuthorizationRequest.HeadersToAdd,
				&corev3.HeaderValue{Key: h.Name, Value: h.Value.Text()})
		}
	}
	if len(of.UpstreamOnAllow)+len(of.DownstreamOnDeny)+len(of.DownstreamOnAllow) > 0 {
		service.AuthorizationResponse = &httpextauthzv3.AuthorizationResponse{
			AllowedUpstreamHeaders:        headerNames(of.UpstreamOnAllow),
			AllowedClientHeaders:          headerNames(of.DownstreamOnDeny),
			AllowedClientHeadersOnSuccess: headerNames(of.DownstreamOnAllow),
		}
	}
	return service
}

// headerNames matches names of headers by patterns; nil for none.
func headerNames(patterns []string) *matcherv3.ListStringMatcher {
	if len(patterns) == 0 {
		return nil
	}
	m := &matcherv3.ListStringMatcher{}
	for _, p := range patterns {
		name := text(p)
		name.IgnoreCase = true
		m.Patterns = append(m.Patterns, name)
	}
	return m
}
