package app

import (
	"net/netip"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// Which families a proxy has, its metadata say (INSTANCE_IPS), or else the address in its name.
func TestStackOfANode(t *testing.T) {
	for _, c := range []struct {
		name string
		ips  []string
		dual bool
		want model.Stack
	}{
		{name: "10.0.0.1", want: model.IPv4Stack},
		{name: "::ffff:10.0.0.1", want: model.IPv4Stack},
		{name: "fd00::1", want: model.IPv6Stack},
		{name: "10.0.0.1", ips: []string{"fd00::1"}, want: model.IPv6Stack},
		{name: "fd00::1", ips: []string{"10.0.0.1"}, dual: true, want: model.IPv4Stack},
		{name: "10.0.0.1", ips: []string{"10.0.0.1", "fd00::1"}, want: model.BothStacks},
		{name: "10.0.0.1", ips: []string{"fd00::1", "10.0.0.1"}, dual: true, want: model.DualStack},
	} {
		n := &serve.Node{Address: netip.MustParseAddr(c.name)}
		for _, ip := range c.ips {
			n.Metadata.InstanceIPs = append(n.Metadata.InstanceIPs, netip.MustParseAddr(ip))
		}
		require.Equal(t, c.want, stackOf(n, c.dual), "%+v", c)
	}
}

// What stands in front of a gateway is nothing to a sidecar, which would be another class.
func TestGatewaysStateWhatStandsInFront(t *testing.T) {
	of := func(kind, header string) (compile.Facts, error) {
		metadata, err := structpb.NewStruct(map[string]any{"PROXY_CONFIG": map[string]any{
			"gatewayTopology": map[string]any{"numTrustedProxies": 2, "forwardClientCertDetails": header},
		}})
		require.NoError(t, err)
		n, err := serve.ParseNode(&corev3.Node{Id: kind + "~127.0.0.2~a.b~b.svc", Metadata: metadata})
		require.NoError(t, err)
		return factsOf(n)
	}
	f, err := of("router", "FORWARD_ONLY")
	require.NoError(t, err)
	want := model.GatewayTopology{TrustedProxies: 2, ClientCert: model.CertForwardOnly}
	got, stated := f.Proxy.Settings.Topology.Topology()
	require.True(t, stated)
	require.Equal(t, want, got)
	_, err = of("router", "ALL")
	require.ErrorContains(t, err, `forwardClientCertDetails = "ALL": want SANITIZE, FORWARD_ONLY, APPEND_FORWARD`)
	f, err = of("sidecar", "FORWARD_ONLY")
	require.NoError(t, err)
	require.Zero(t, f.Proxy.Settings.Topology)
}

// What is for gateways alone makes no other classes of sidecars, and the other way around.
func TestSettingsOfTheControlPlaneComeToTheirProxies(t *testing.T) {
	all := config.Config{AllClusters: true, OwnGateways: true, RemoteAddress: true, HTTP10: true}
	of := func(p scope.Proxy, c config.Config) scope.Settings {
		configure(&p, c)
		return p.Settings
	}
	gateway := scope.Proxy{Type: scope.Router}
	require.Equal(t, scope.Settings{AllClusters: true, OwnGateways: true, HTTP10: true}, of(gateway, all))
	require.Equal(t, scope.Settings{RemoteAddress: true, HTTP10: true}, of(scope.Proxy{}, all))
	own := scope.Proxy{Settings: scope.Settings{HTTP10: true}}
	require.Equal(t, own.Settings, of(own, config.Config{}), "one that says so itself")
}

// An intercepted proxy needs no port for HTTP proxying, so none that it states makes a class.
func TestProxyPortCountsWithoutInterceptionAlone(t *testing.T) {
	node := &serve.Node{Type: serve.Sidecar, Address: netip.MustParseAddr("10.0.0.1")}
	node.Metadata.HTTPProxyPort = 15007
	for mode, want := range map[serve.InterceptionMode]uint16{serve.Redirect: 0, serve.None: 15007} {
		node.Metadata.InterceptionMode = mode
		f, err := factsOf(node)
		require.NoError(t, err)
		require.Equal(t, want, f.Proxy.Settings.HTTPProxyPort)
	}
}

// Istio's filters are a part of the class, beside what an agent reads.
func TestFactsOfAnEnvoyOfIstiosBuild(t *testing.T) {
	node := &serve.Node{Type: serve.Sidecar, Address: netip.MustParseAddr("10.0.0.1")}
	for _, has := range []bool{false, true} {
		node.IstioFilters = has
		f, err := factsOf(node)
		require.NoError(t, err)
		require.Equal(t, has, f.Proxy.Settings.IstioFilters)
		require.False(t, f.Proxy.Settings.Metrics)
	}
}

func TestClassIsMadeByTheFirstOfItsProxies(t *testing.T) {
	r := newRig(t, nil)
	node := func(name string) *serve.Node {
		n := &serve.Node{Type: serve.Sidecar, Address: netip.MustParseAddr("10.0.0.1"), Pod: name, Namespace: "default"}
		n.Metadata.InterceptionMode = serve.None
		return n
	}
	registry := r.pipeline.registry
	require.True(t, registry.makesClass(t.Context(), node("a"), serve.Identity{}))
	conn, err := registry.Connect(t.Context(), node("a"), serve.Identity{})
	require.NoError(t, err)
	defer conn.Close()
	require.False(t, registry.makesClass(t.Context(), node("b"), serve.Identity{}))
	other := node("b")
	other.Metadata.HTTPProxyPort = 15007
	require.True(t, registry.makesClass(t.Context(), other, serve.Identity{}))
	other.Type = "ztunnel"
	require.False(t, registry.makesClass(t.Context(), other, serve.Identity{}), "it is refused")
}

// What a Pod says of its own proxy makes a class, and what the mesh said when the Pod was created
// makes none.
func TestPodsStateWhatTheirProxiesDo(t *testing.T) {
	of := func(annotation string) *model.Stated {
		metadata, err := structpb.NewStruct(map[string]any{
			"PROXY_CONFIG": map[string]any{"tracing": map[string]any{"sampling": 3}},
			"ANNOTATIONS":  map[string]any{"proxy.istio.io/config": annotation},
		})
		require.NoError(t, err)
		n, err := serve.ParseNode(&corev3.Node{Id: "sidecar~127.0.0.2~a.b~b.svc", Metadata: metadata})
		require.NoError(t, err)
		facts, _, err := newRegistrar(nil, config.Config{}).facts(t.Context(), n, serve.Identity{})
		require.NoError(t, err)
		return facts.Stated
	}
	require.Nil(t, of("concurrency: 2"))
	require.Nil(t, of("no: [YAML"))
	require.Equal(t, &model.Stated{Tracing: model.StatedTracing{Sampling: 1250}}, of("tracing: {sampling: 12.5}"))
	require.Equal(t, &model.Stated{Headers: &model.ProxyHeaders{KeepsServer: true}},
		of("proxyHeaders: {server: {disabled: true}}"))
}
