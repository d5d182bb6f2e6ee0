package listener_test

import (
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/translatetest"
)

// goldenInput is a golden case: one of the inputs, written as people write it.
type goldenInput struct {
	Common      goldenCommon
	AuthFilters *goldenAuthFilters
	HTTP        *listener.HTTPInput
	Gateway     *goldenGateway
	Inbound     *goldenInbound
	TCP         *goldenTCP
	// VirtualInbound has the ports of Inbound, without Bind.
	VirtualInbound  *goldenVirtual
	VirtualOutbound *listener.VirtualOutboundInput
}

type goldenCommon struct {
	AccessLogs    []*model.AccessLog
	Metrics       listener.Metrics
	Tracing       model.Tracing
	Topology      model.GatewayTopology
	Headers       model.ProxyHeaders
	IdleTimeout   metav1.Duration
	HTTP10        bool
	RemoteAddress bool
	Sessions      bool

	DetectionTimeout metav1.Duration
	NoListenerLog    bool
	Connections      *model.ConnectionSettings
	Stack            string // a key of translatetest.Stacks

	MeshTLS, TLSDefaults *model.TLSParams
	Paths                string // BASE, NONE, MERGE_SLASHES or DECODE_AND_MERGE_SLASHES
	TrustDomains         []string
}

// goldenAuthFilters has a filter of requests and one of connections, both of which refuse all.
type goldenAuthFilters struct{ ClosesTCP bool }

func (g *goldenAuthFilters) filters() *listener.AuthFilters {
	if g == nil {
		return nil
	}
	filter := func(name string, config proto.Message) []listener.Filter {
		packed := pb.Any(config)
		return []listener.Filter{{Name: name, Type: packed.GetTypeUrl(), Config: string(packed.GetValue())}}
	}
	nothing := &rbacv3.RBAC{}
	return &listener.AuthFilters{
		HTTP:      filter("envoy.filters.http.rbac", &httprbacv3.RBAC{Rules: nothing}),
		TCP:       filter("envoy.filters.network.rbac", &tcprbacv3.RBAC{Rules: nothing, StatPrefix: "tcp."}),
		ClosesTCP: g.ClosesTCP,
	}
}

var pathLevels = map[string]model.PathNormalization{
	"": model.NormalizeBase, "NONE": model.NormalizeNone,
	"MERGE_SLASHES": model.NormalizeMergeSlashes, "DECODE_AND_MERGE_SLASHES": model.NormalizeDecode,
}

type goldenGateway struct {
	Name, Bind string
	Port       uint16
	RouteTable string
	GRPCWeb    bool
	Chains     []goldenServerChain
}

type goldenServerChain struct {
	goldenChain
	RouteTable   string
	TLS          *model.ServerTLS
	FilesByAgent bool
}

type goldenInbound struct {
	Name, Bind, Protocol, Cluster string
	Port                          uint16
	Refuses, TakesTLS             bool
	TLS                           *model.ServerTLS
	FilesByAgent                  bool
	StatName                      string
}

type goldenVirtual struct {
	Ports      []goldenInbound
	Undeclared []listener.UndeclaredPort
	Others     listener.Undeclared
	Listens    uint16
	// Transparent is that of VirtualInboundInput.
	Transparent bool
}

type goldenTCP struct {
	Name, Bind string
	Port       uint16
	BindToPort bool
	RouteTable string
	GRPCWeb    bool
	DynamicDNS bool
	Chains     []goldenChain
}

type goldenChain struct {
	Name                     string
	SNI, Prefixes            []string
	Targets                  []listener.WeightedTarget
	StatName                 string
	Closed, HashSource       bool
	OfMesh, Bytes            bool
	ForwardPort              uint16
	DynamicDNS               bool
	Tunnel                   listener.Tunnel
	IdleTimeout, MaxDuration metav1.Duration
}

func TestGolden(t *testing.T) {
	translatetest.Golden(t, func(t *testing.T, text []byte) proto.Message {
		var in goldenInput
		require.NoError(t, yaml.UnmarshalStrict(text, &in))
		return in.listener(t)
	})
}

func TestEnvoyTakesEveryGoldenOutput(t *testing.T) {
	runnable := translatetest.Runnable(t)
	resources := &bootstrapv3.Bootstrap_StaticResources{Clusters: []*clusterv3.Cluster{
		{Name: "outbound|8126||dd.observability.svc.cluster.local"}, // Envoy looks for those of tracers
		{Name: "outbound|9411||zipkin.istio-system.svc.cluster.local"},
	}}
	for i, name := range translatetest.Outputs(t) {
		l := &listenerv3.Listener{}
		translatetest.Output(t, name, runnable, l)
		withoutIstioFilters(t, l)
		l.Name = name
		l.Address.GetSocketAddress().PortSpecifier = port(20000 + i)
		for _, more := range l.GetAdditionalAddresses() {
			more.GetAddress().GetSocketAddress().PortSpecifier = port(20000 + i)
		}
		resources.Listeners = append(resources.Listeners, l)
	}
	translatetest.RequireValid(t, resources)
}

// withoutIstioFilters removes the filters that a stock Envoy does not have.
func withoutIstioFilters(t *testing.T, l *listenerv3.Listener) {
	t.Helper()
	istio := func(name string) bool { return strings.HasPrefix(name, "istio.") }
	for _, chain := range l.GetFilterChains() {
		chain.Filters = slices.DeleteFunc(chain.Filters, func(f *listenerv3.Filter) bool { return istio(f.GetName()) })
		for _, f := range chain.GetFilters() {
			manager := &hcmv3.HttpConnectionManager{}
			if !f.GetTypedConfig().MessageIs(manager) {
				continue
			}
			require.NoError(t, f.GetTypedConfig().UnmarshalTo(manager))
			manager.HttpFilters = slices.DeleteFunc(manager.HttpFilters, func(f *hcmv3.HttpFilter) bool {
				return istio(f.GetName())
			})
			f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: pb.Any(manager)}
		}
	}
}

func (in *goldenInput) listener(t *testing.T) *listenerv3.Listener {
	t.Helper()
	common := &listener.Common{
		AccessLogs:    in.Common.AccessLogs,
		Metrics:       in.Common.Metrics,
		Tracing:       in.Common.Tracing,
		Topology:      in.Common.Topology,
		Headers:       in.Common.Headers,
		IdleTimeout:   in.Common.IdleTimeout.Duration,
		HTTP10:        in.Common.HTTP10,
		RemoteAddress: in.Common.RemoteAddress,
		Sessions:      in.Common.Sessions,
		Stack:         translatetest.Stacks[in.Common.Stack],
		MeshTLS:       in.Common.MeshTLS,
		TLSDefaults:   in.Common.TLSDefaults,
		Paths:         pathLevels[in.Common.Paths],
		TrustDomains:  in.Common.TrustDomains,

		DetectionTimeout: in.Common.DetectionTimeout.Duration,
		NoListenerLog:    in.Common.NoListenerLog,
		Connections:      in.Common.Connections,
	}
	switch {
	case in.HTTP != nil:
		in.HTTP.Common = common
		return listener.HTTP(*in.HTTP)
	case in.Gateway != nil:
		input := in.Gateway.input(common)
		input.AuthFilters = in.AuthFilters.filters()
		return listener.Gateway(input)
	case in.Inbound != nil:
		return listener.Inbound(listener.InboundInput{
			InboundPort: in.Inbound.port(t),
			Bind:        in.Inbound.Bind,
			AuthFilters: in.AuthFilters.filters(),
			Common:      common,
		})
	case in.VirtualInbound != nil:
		var ports []listener.InboundPort
		for _, p := range in.VirtualInbound.Ports {
			ports = append(ports, p.port(t))
		}
		list := model.NewInterner[listener.InboundPort]().List(ports)
		return listener.VirtualInbound(listener.VirtualInboundInput{
			Ports:       list,
			Undeclared:  model.NewInterner[listener.UndeclaredPort]().List(in.VirtualInbound.Undeclared),
			Others:      in.VirtualInbound.Others,
			Listens:     in.VirtualInbound.Listens,
			Transparent: in.VirtualInbound.Transparent,
			AuthFilters: in.AuthFilters.filters(),
			Common:      common,
		})
	case in.VirtualOutbound != nil:
		in.VirtualOutbound.Common = common
		return listener.VirtualOutbound(*in.VirtualOutbound)
	}
	require.NotNil(t, in.TCP, "want one of http, gateway, inbound, virtualInbound, virtualOutbound and tcp")
	return listener.TCP(in.TCP.input(common))
}

func (in *goldenInbound) port(t *testing.T) listener.InboundPort {
	return listener.InboundPort{
		Name: in.Name, Port: in.Port, Protocol: protocol(t, in.Protocol), Cluster: in.Cluster, Refuses: in.Refuses,
		TakesTLS: in.TakesTLS, StatName: in.StatName, TLS: in.TLS, FilesByAgent: in.FilesByAgent,
	}
}

func (in *goldenGateway) input(common *listener.Common) listener.GatewayInput {
	chains := make([]listener.ServerChain, 0, len(in.Chains))
	for _, d := range in.Chains {
		chains = append(chains, listener.ServerChain{
			Chain:        d.chain(),
			RouteTable:   d.RouteTable,
			TLS:          d.TLS,
			FilesByAgent: d.FilesByAgent,
		})
	}
	return listener.GatewayInput{
		Name: in.Name, Bind: in.Bind, Port: in.Port, RouteTable: in.RouteTable, GRPCWeb: in.GRPCWeb, Common: common,
		Chains: model.NewInterner[listener.ServerChain]().List(chains),
	}
}

func (c *goldenChain) chain() listener.Chain {
	words := model.NewInterner[string]()
	return listener.Chain{
		Name:        c.Name,
		SNI:         words.List(c.SNI),
		Prefixes:    words.List(c.Prefixes),
		Closed:      c.Closed,
		OfMesh:      c.OfMesh,
		Bytes:       c.Bytes,
		HashSource:  c.HashSource,
		ForwardPort: c.ForwardPort,
		DynamicDNS:  c.DynamicDNS,
		Tunnel:      c.Tunnel,
		Targets:     model.NewInterner[listener.WeightedTarget]().List(c.Targets),
		StatName:    c.StatName,
		IdleTimeout: c.IdleTimeout.Duration,
		MaxDuration: c.MaxDuration.Duration,
	}
}

func (in *goldenTCP) input(common *listener.Common) listener.TCPInput {
	chains := make([]listener.Chain, 0, len(in.Chains))
	for _, c := range in.Chains {
		chains = append(chains, c.chain())
	}
	return listener.TCPInput{
		Name:       in.Name,
		Bind:       in.Bind,
		Port:       in.Port,
		BindToPort: in.BindToPort,
		RouteTable: in.RouteTable,
		GRPCWeb:    in.GRPCWeb,
		DynamicDNS: in.DynamicDNS,
		Common:     common,
		Chains:     model.NewInterner[listener.Chain]().List(chains),
	}
}

func protocol(t *testing.T, name string) model.Protocol {
	t.Helper()
	for p := model.Auto; p <= model.GRPCWeb; p++ {
		if p.String() == name {
			return p
		}
	}
	t.Fatalf("protocol %q: want one that model knows", name)
	return model.Auto
}
