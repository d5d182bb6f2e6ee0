package authz_test

import (
	"os"
	"path/filepath"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
	"github.com/lateen-mesh/lateen/internal/translate/authz"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/translatetest"
)

// A case is policies as users write them, and before them the mesh configuration, if any. What
// comes out is a listener with a chain of requests on port 1, and one of other connections.
func TestGolden(t *testing.T) {
	translatetest.Golden(t, func(t *testing.T, text []byte) proto.Message {
		in := inputOf(t, text)
		chains := &listenerv3.Listener{
			Name: "0.0.0.0_80", Address: pb.Address("127.0.0.1", 80), FilterChains: []*listenerv3.FilterChain{
				httpChain(authz.HTTP(in)), tcpChain(authz.TCP(in)),
			},
		}
		if authz.RefusesConnections(in) {
			chains.FilterChains[1].Name = "refuses every connection"
		}
		return chains
	})
}

func TestEnvoyTakesEveryGoldenOutput(t *testing.T) {
	resources := &bootstrapv3.Bootstrap_StaticResources{}
	for i, name := range translatetest.Outputs(t) {
		l := &listenerv3.Listener{}
		translatetest.Output(t, name, func(s string) string { return s }, l)
		l.Name, l.Address = name, pb.Address("127.0.0.1", uint16(20000+i))
		resources.Listeners = append(resources.Listeners, l, listed(t, name, uint16(21000+i)))
	}
	translatetest.RequireValid(t, resources)
}

// listed is a listener with the filters of requests of a case as they are in a resource.
func listed(t *testing.T, name string, port uint16) *listenerv3.Listener {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".in.yaml"))
	require.NoError(t, err)
	in := inputOf(t, text)
	r := authz.Resource("list", in)
	var list filterchainv3.FilterChainConfig
	require.NoError(t, r.GetTypedConfig().UnmarshalTo(&list))
	filters := list.GetDefaultFilterChain().GetFilters()
	require.Len(t, filters, len(authz.HTTP(in)))
	for i, f := range authz.HTTP(in) {
		require.Equal(t, f.GetName(), filters[i].GetName())
		require.True(t, proto.Equal(f.GetTypedConfig(), filters[i].GetTypedConfig()))
	}
	return &listenerv3.Listener{
		Name: name + " as a list", Address: pb.Address("127.0.0.1", port),
		FilterChains: []*listenerv3.FilterChain{httpChain([]*hcmv3.HttpFilter{{
			Name: r.GetName(), ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: r.GetTypedConfig()},
		}})},
	}
}

// inputOf converts manifests.
func inputOf(t *testing.T, text []byte) authz.Input {
	t.Helper()
	documents, problems := manifest.Read("case.yaml", text)
	require.Empty(t, problems)
	converter, mesh := convert.New(convert.Options{}), model.DefaultMesh()
	var policies []authz.Policy
	var tokens []authz.Token
	closed := false
	for _, d := range documents {
		result := converter.Convert(source.Change{Key: d.Key, Object: d.Object, Origin: d.Origin}, mesh)
		require.Empty(t, result.Problems, d.Key)
		for _, o := range result.Objects {
			switch o := o.(type) {
			case *model.MeshConfig:
				mesh = *o
			case *model.AuthorizationPolicy:
				policies = append(policies, authz.Policy{
					Namespace: o.Namespace, Name: o.Name,
					Action: o.Action, DryRun: o.DryRun, Provider: o.Provider, Rules: o.Rules,
				})
			case *model.RequestAuthentication:
				closed = closed || o.Closed
				for _, r := range o.Rules {
					tokens = append(tokens, authz.Token{Rule: r, Keys: r.Keys})
				}
			}
		}
	}
	return authz.Input{
		Policies:     model.NewInterner[authz.Policy]().List(policies),
		TrustDomains: model.NewInterner[string]().List(append([]string{mesh.TrustDomain}, mesh.TrustDomainAliases...)),
		Tokens:       model.NewInterner[authz.Token]().List(tokens),
		Closed:       closed,
	}
}

func httpChain(filters []*hcmv3.HttpFilter) *listenerv3.FilterChain {
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix:     "http",
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{}},
		HttpFilters: append(filters, &hcmv3.HttpFilter{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pb.Any(&routerv3.Router{})},
		}),
	}
	return &listenerv3.FilterChain{
		Name:             "requests",
		FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(1)},
		Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pb.Any(manager)},
		}},
	}
}

func tcpChain(filters []*listenerv3.Filter) *listenerv3.FilterChain {
	proxy := &tcpv3.TcpProxy{StatPrefix: "tcp", ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: "xds"}}
	return &listenerv3.FilterChain{Name: "connections", Filters: append(filters, &listenerv3.Filter{
		Name:       "envoy.filters.network.tcp_proxy",
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pb.Any(proxy)},
	})}
}
