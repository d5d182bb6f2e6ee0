package route_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/route"
)

// TestEnvoyTakesTheGoldens has real Envoy check every golden output and both fallbacks: regular
// expressions, header values and filter configuration are checked by nothing else.
func TestEnvoyTakesTheGoldens(t *testing.T) {
	binary := realenvoy.Binary(t)
	hosts := []*routev3.VirtualHost{}
	for _, file := range goldenFiles(t) {
		vh := &routev3.VirtualHost{}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		json, err := yaml.YAMLToJSON(text)
		require.NoError(t, err)
		require.NoError(t, protojson.Unmarshal(json, vh), file)
		hosts = append(hosts, vh)
	}
	hosts = append(
		hosts, route.Fallback(route.FallbackInput{To: "PassthroughCluster"}), route.Fallback(route.FallbackInput{}),
		route.Fallback(route.FallbackInput{To: "AllowAnyDynamicDNSCluster", DynamicDNS: true}),
	)
	table := route.Table(route.TableInput{Name: "goldens", AnyPort: true})
	for i, vh := range hosts { // the assembly's part; domains are unique within a table
		vh.Name = fmt.Sprintf("host-%d", i)
		vh.Domains = []string{vh.Name}
		table.VirtualHosts = append(table.VirtualHosts, vh)
	}
	config := filepath.Join(t.TempDir(), "envoy.json")
	json, err := protojson.Marshal(bootstrap(table))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(config, json, 0o600))

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(
		ctx, binary, "--mode", "validate", "--log-level", "warn", "-c", config,
	).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "max_grpc_timeout") { // see setTimeout
			require.NotContains(t, line, "deprecated")
		}
	}
}

func bootstrap(table *routev3.RouteConfiguration) *bootstrapv3.Bootstrap {
	filter := func(name string, config proto.Message) *hcmv3.HttpFilter {
		return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pb.Any(config)}}
	}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix:     "goldens",
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: table},
		HttpFilters: []*hcmv3.HttpFilter{
			filter("envoy.filters.http.fault", &faultv3.HTTPFault{}),
			filter("envoy.filters.http.cors", &corsv3.Cors{}),
			filter("envoy.filters.http.router", &routerv3.Router{}),
		},
	}
	listener := &listenerv3.Listener{
		Name: "goldens",
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 0},
		}}},
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pb.Any(manager)},
		}}}},
	}
	passthrough := &clusterv3.Cluster{Name: "PassthroughCluster", ConnectTimeout: pb.Duration(time.Second)}
	return &bootstrapv3.Bootstrap{
		Node: &corev3.Node{Id: "goldens", Cluster: "goldens"},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Listeners: []*listenerv3.Listener{listener},
			Clusters:  []*clusterv3.Cluster{passthrough},
		},
	}
}
