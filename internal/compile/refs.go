package compile

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// refsOf reads the references of a resource from its message, once, when it is encoded.
func (e *emitter) refsOf(m proto.Message) resource.Refs {
	var found refFinder
	switch m := m.(type) {
	case *listenerv3.Listener:
		found.listener(m)
	case *routev3.VirtualHost:
		found.virtualHost(m)
	case *clusterv3.Cluster:
		found.upstream(m)
	}
	return resource.Refs{
		Clusters: e.referred.List(distinct(found.clusters)),
		Routes:   e.referred.List(distinct(found.routes)),
		Secrets:  e.referred.List(distinct(found.secrets)),
	}
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

type refFinder struct{ clusters, routes, secrets []string }

func (f *refFinder) cluster(name string) {
	if name != "" {
		f.clusters = append(f.clusters, name)
	}
}

func (f *refFinder) listener(m *listenerv3.Listener) {
	chains := m.GetFilterChains()
	if d := m.GetDefaultFilterChain(); d != nil {
		chains = append(slices.Clone(chains), d)
	}
	for _, chain := range chains {
		for _, filter := range chain.GetFilters() {
			f.filter(filter)
		}
	}
}

// filter reads the filters that refer to others. A configuration that does not decode refers to
// nothing.
func (f *refFinder) filter(m *listenerv3.Filter) {
	config, err := m.GetTypedConfig().UnmarshalNew()
	if err != nil {
		return
	}
	switch config := config.(type) {
	case *hcmv3.HttpConnectionManager:
		if name := config.GetRds().GetRouteConfigName(); name != "" {
			f.routes = append(f.routes, name)
		}
		for _, v := range config.GetRouteConfig().GetVirtualHosts() {
			f.virtualHost(v)
		}
		f.tracer(config.GetTracing().GetProvider())
	case *tcpv3.TcpProxy:
		f.cluster(config.GetCluster())
		for _, c := range config.GetWeightedClusters().GetClusters() {
			f.cluster(c.GetName())
		}
	}
}

func (f *refFinder) virtualHost(m *routev3.VirtualHost) {
	f.mirrors(m.GetRequestMirrorPolicies())
	for _, r := range m.GetRoutes() {
		action := r.GetRoute()
		f.cluster(action.GetCluster())
		for _, c := range action.GetWeightedClusters().GetClusters() {
			f.cluster(c.GetName())
		}
		f.mirrors(action.GetRequestMirrorPolicies())
	}
}

func (f *refFinder) mirrors(policies []*routev3.RouteAction_RequestMirrorPolicy) {
	for _, p := range policies {
		f.cluster(p.GetCluster())
	}
}

// upstream reads the secrets of a cluster's own transport socket. A socket that endpoints choose is
// for TLS of the mesh, and its secrets are the agent's.
func (f *refFinder) upstream(m *clusterv3.Cluster) {
	var tls tlsv3.UpstreamTlsContext
	if m.GetTransportSocket() == nil || m.GetTransportSocket().GetTypedConfig().UnmarshalTo(&tls) != nil {
		return
	}
	common := tls.GetCommonTlsContext()
	for _, secret := range append(
		common.GetTlsCertificateSdsSecretConfigs(),
		common.GetCombinedValidationContext().GetValidationContextSdsSecretConfig(),
	) {
		if secret.GetSdsConfig().GetAds() != nil {
			f.secrets = append(f.secrets, secret.GetName())
		}
	}
}

// tracer reads where spans go: Envoy refuses a listener whose tracer has no cluster.
func (f *refFinder) tracer(m *tracev3.Tracing_Http) {
	config, err := m.GetTypedConfig().UnmarshalNew()
	if err != nil {
		return
	}
	switch config := config.(type) {
	case *tracev3.ZipkinConfig:
		f.cluster(config.GetCollectorService().GetHttpUri().GetCluster())
	case *tracev3.DatadogConfig:
		f.cluster(config.GetCollectorCluster())
	}
}
