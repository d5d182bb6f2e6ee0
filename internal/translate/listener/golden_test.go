package listener_test

import (
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/translatetest"
)

// goldenInput is a golden case: one of the four inputs, written as people write it.
type goldenInput struct {
	Common  goldenCommon
	HTTP    *listener.HTTPInput
	Gateway *listener.GatewayInput
	Inbound *goldenInbound
	TCP     *goldenTCP
}

type goldenCommon struct {
	AccessLogFile string
	IdleTimeout   metav1.Duration
	HTTP10        bool
}

type goldenInbound struct {
	Name, Bind, Protocol, Cluster, StatName string
	Port                                    uint16
	Refuses                                 bool
}

type goldenTCP struct {
	Name, Bind string
	Port       uint16
	BindToPort bool
	Chains     []goldenChain
}

type goldenChain struct {
	Name                     string
	SNI, Prefixes            []string
	Targets                  []listener.WeightedTarget
	Closed, HashSource       bool
	ForwardPort              uint16
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
	resources := &bootstrapv3.Bootstrap_StaticResources{}
	for i, name := range translatetest.Outputs(t) {
		l := &listenerv3.Listener{}
		translatetest.Output(t, name, runnable, l)
		l.Name = name
		l.Address.GetSocketAddress().PortSpecifier = port(20000 + i)
		resources.Listeners = append(resources.Listeners, l)
	}
	translatetest.RequireValid(t, resources)
}

func (in *goldenInput) listener(t *testing.T) *listenerv3.Listener {
	t.Helper()
	common := &listener.Common{
		AccessLogFile: in.Common.AccessLogFile,
		IdleTimeout:   in.Common.IdleTimeout.Duration,
		HTTP10:        in.Common.HTTP10,
	}
	switch {
	case in.HTTP != nil:
		in.HTTP.Common = common
		return listener.HTTP(*in.HTTP)
	case in.Gateway != nil:
		in.Gateway.Common = common
		return listener.Gateway(*in.Gateway)
	case in.Inbound != nil:
		return listener.Inbound(listener.InboundInput{
			Name: in.Inbound.Name, Bind: in.Inbound.Bind, Port: in.Inbound.Port, Protocol: protocol(t, in.Inbound.Protocol),
			Cluster: in.Inbound.Cluster, StatName: in.Inbound.StatName, Refuses: in.Inbound.Refuses, Common: common,
		})
	}
	require.NotNil(t, in.TCP, "want one of http, gateway, inbound and tcp")
	return listener.TCP(in.TCP.input(common))
}

func (in *goldenTCP) input(common *listener.Common) listener.TCPInput {
	words := model.NewInterner[string]()
	chains := make([]listener.Chain, 0, len(in.Chains))
	for _, c := range in.Chains {
		chains = append(chains, listener.Chain{
			Name: c.Name, SNI: words.List(c.SNI), Prefixes: words.List(c.Prefixes), Closed: c.Closed, HashSource: c.HashSource, ForwardPort: c.ForwardPort,
			Targets:     model.NewInterner[listener.WeightedTarget]().List(c.Targets),
			IdleTimeout: c.IdleTimeout.Duration, MaxDuration: c.MaxDuration.Duration,
		})
	}
	return listener.TCPInput{
		Name: in.Name, Bind: in.Bind, Port: in.Port, BindToPort: in.BindToPort, Common: common,
		Chains: model.NewInterner[listener.Chain]().List(chains),
	}
}

func protocol(t *testing.T, name string) model.Protocol {
	t.Helper()
	for p := model.Auto; p <= model.UDP; p++ {
		if p.String() == name {
			return p
		}
	}
	t.Fatalf("protocol %q: want one that model knows", name)
	return model.Auto
}
