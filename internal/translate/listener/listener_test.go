package listener_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/translatetest"
)

func port(n int) *corev3.SocketAddress_PortValue {
	return &corev3.SocketAddress_PortValue{PortValue: uint32(n)}
}

func TestInputsAreMemoKeys(t *testing.T) {
	for _, in := range []any{
		listener.HTTPInput{}, listener.TCPInput{}, listener.InboundInput{}, listener.GatewayInput{},
		listener.VirtualInboundInput{}, listener.VirtualOutboundInput{},
	} {
		translatetest.RequireInput(t, in)
	}
}

func TestNoCommonIsTheZeroOne(t *testing.T) {
	zero := &listener.Common{}
	requireEqual(t, listener.HTTP(listener.HTTPInput{Common: zero}), listener.HTTP(listener.HTTPInput{}))
	requireEqual(t, listener.TCP(listener.TCPInput{Common: zero}), listener.TCP(listener.TCPInput{}))
	requireEqual(t, listener.Inbound(listener.InboundInput{Common: zero}), listener.Inbound(listener.InboundInput{}))
	requireEqual(t, listener.Gateway(listener.GatewayInput{Common: zero}), listener.Gateway(listener.GatewayInput{}))
}

func TestForwardProxyFilterStandsBeforeTheRouter(t *testing.T) {
	names := func(unknown bool) []string {
		l := listener.HTTP(listener.HTTPInput{ProxyUnknown: unknown})
		manager := &hcmv3.HttpConnectionManager{}
		require.NoError(t, l.GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(manager))
		var out []string
		for _, f := range manager.GetHttpFilters() {
			out = append(out, f.GetName())
		}
		return out
	}
	require.Equal(t, []string{
		"envoy.filters.http.fault", "envoy.filters.http.cors", "envoy.filters.http.router",
	}, names(false))
	require.Equal(t, []string{
		"envoy.filters.http.fault", "envoy.filters.http.cors", "envoy.filters.http.dynamic_forward_proxy",
		"envoy.filters.http.router",
	}, names(true))
}

// TestChainsNeverOverlap is what Envoy demands of a listener, whatever routes people write, and
// that the first chain wins.
func TestChainsNeverOverlap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := listener.TCP(drawTCP(rt))
		owner := map[string]string{}
		for _, c := range l.GetFilterChains() {
			for _, cell := range cells(c.GetFilterChainMatch()) {
				if before, ok := owner[cell]; ok {
					rt.Fatalf("%s: in chains %q and %q", cell, before, c.GetName())
				}
				owner[cell] = c.GetName()
			}
		}
	})
}

func cells(m *listenerv3.FilterChainMatch) []string {
	names, prefixes := m.GetServerNames(), []string{""}
	if len(names) == 0 {
		names = []string{""}
	}
	if len(m.GetPrefixRanges()) > 0 {
		prefixes = nil
	}
	for _, p := range m.GetPrefixRanges() {
		prefixes = append(prefixes, fmt.Sprintf("%s/%d", p.GetAddressPrefix(), p.GetPrefixLen().GetValue()))
	}
	var out []string
	for _, n := range names {
		for _, p := range prefixes {
			out = append(out, p+" "+n)
		}
	}
	return out
}

func drawTCP(t *rapid.T) listener.TCPInput {
	words := model.NewInterner[string]()
	sni := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a.test", "A.test", "b.test", "*.test", "*", "", "x*y", "*.*.test",
	}), 0, 3)
	prefixes := rapid.SliceOfN(rapid.SampledFrom([]string{
		"10.0.0.0/8", "10.1.0.0/8", "10.0.0.1", "::/0", "bad", "fe80::1%a",
	}), 0, 3)
	var chains []listener.Chain
	for i := range rapid.IntRange(0, 5).Draw(t, "chains") {
		chains = append(chains, listener.Chain{
			Name:     fmt.Sprint("chain-", i),
			SNI:      words.List(sni.Draw(t, "sni")),
			Prefixes: words.List(prefixes.Draw(t, "prefixes")),
			Closed:   rapid.Bool().Draw(t, "closed"),
			Targets: model.NewInterner[listener.WeightedTarget]().List([]listener.WeightedTarget{
				{Cluster: "one", Weight: rapid.Uint32Range(0, 2).Draw(t, "weight")}, {Cluster: "two", Weight: 1},
			}),
		})
	}
	return listener.TCPInput{
		Name: "tcp", Bind: "127.0.0.2", Port: 9000, BindToPort: true,
		Chains: model.NewInterner[listener.Chain]().List(chains),
		Common: &listener.Common{IdleTimeout: time.Duration(rapid.Int64().Draw(t, "idle"))},
	}
}

// TestEnvoyTakesWhateverChains gives Envoy itself the last word on chains that people may write.
func TestEnvoyTakesWhateverChains(t *testing.T) {
	resources := &bootstrapv3.Bootstrap_StaticResources{}
	inputs := rapid.Custom(drawTCP)
	for seed := range 40 {
		l := listener.TCP(inputs.Example(seed))
		if len(l.GetFilterChains()) == 0 && l.GetDefaultFilterChain() == nil {
			continue // nothing to listen for; the caller makes no such listener
		}
		l.Name = fmt.Sprint("tcp-", seed)
		l.Address.GetSocketAddress().PortSpecifier = port(21000 + seed)
		resources.Listeners = append(resources.Listeners, l)
	}
	translatetest.RequireValid(t, resources)
}

func TestEqualInputsHaveEqualBytes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := drawTCP(rt)
		again := in
		again.Chains = model.NewInterner[listener.Chain]().List(slices.Collect(in.Chains.All()))
		requireEqual(rt, listener.TCP(in), listener.TCP(again))
		http := listener.HTTPInput{
			Name:         "h",
			Bind:         rapid.SampledFrom([]string{model.OwnOutbound, "127.0.0.1"}).Draw(rt, "bind"),
			ProxyUnknown: rapid.Bool().Draw(rt, "unknown"),
			BindToPort:   rapid.Bool().Draw(rt, "bound"),
			Common:       in.Common,
		}
		requireEqual(rt, listener.HTTP(http), listener.HTTP(http))
		port := listener.InboundPort{
			Name:     "i",
			Port:     80,
			Protocol: rapid.SampledFrom(protocols()).Draw(rt, "protocol"),
			TakesTLS: rapid.Bool().Draw(rt, "TLS"),
		}
		inbound := listener.InboundInput{InboundPort: port, Common: in.Common}
		requireEqual(rt, listener.Inbound(inbound), listener.Inbound(inbound))
		list := func() *model.List[listener.InboundPort] {
			return model.NewInterner[listener.InboundPort]().List([]listener.InboundPort{port})
		}
		requireEqual(rt, listener.VirtualInbound(listener.VirtualInboundInput{Ports: list(), Common: in.Common}),
			listener.VirtualInbound(listener.VirtualInboundInput{Ports: list(), Common: in.Common}))
	})
}

func protocols() []model.Protocol {
	return []model.Protocol{
		model.Auto, model.HTTP, model.HTTP2, model.GRPC, model.TCP, model.TLS, model.UDP, model.GRPCWeb,
	}
}

func requireEqual(t require.TestingT, want, got proto.Message) {
	wantBytes, err := pb.Marshal(want)
	require.NoError(t, err)
	gotBytes, err := pb.Marshal(got)
	require.NoError(t, err)
	require.Equal(t, wantBytes, gotBytes)
}
