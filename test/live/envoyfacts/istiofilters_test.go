package envoyfacts

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// TestNodesNameTheirExtensions_1_17 is why Lateen decides by Node.extensions who gets the filters
// of Istio's build: a stock Envoy refuses each listener that names one.
func TestNodesNameTheirExtensions_1_17(t *testing.T) {
	every := adscript.Options{NodeInEveryMessage: true}
	factWith(t, "a stock Envoy names its extensions, and refuses others", every, stockEnvoyLacksIstiosFilters)
	factWith(t, "a header names the workload as the node does", adscript.Options{Metadata: istioNode(t)}, peerOfTheNode)
}

func stockEnvoyLacksIstiosFilters(t *testing.T, r *adscript.Run) {
	node := proto.CloneOf(r.AwaitOpen(adscript.Clusters).Node)
	require.Greater(t, len(node.GetExtensions()), 100)
	node.Id = "sidecar~127.0.0.1~web-1.default~default.svc.cluster.local"
	read, err := serve.ParseNode(node)
	require.NoError(t, err)
	require.False(t, read.IstioFilters)
	start(r)
	nack := r.AwaitNack(r.Send(adscript.Push("1", istioCaller(netip.MustParseAddrPort("127.0.0.1:1")))))
	require.Contains(t, nack.Error.GetMessage(), "io.istio.http.peer_metadata.Config")
}

func istioCaller(at netip.AddrPort) *listenerv3.Listener {
	return meteredCaller(at, &listener.Common{Metrics: listener.Metrics{Standard: true, IstioFilters: true}})
}

// istioNode is what Istio's agent says of a workload whose Pod has no label "version".
func istioNode(t *testing.T) *structpb.Struct {
	t.Helper()
	metadata, err := structpb.NewStruct(map[string]any{
		"WORKLOAD_NAME": "web-v1", "NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes",
		"LABELS": map[string]any{
			"app": "web", "service.istio.io/canonical-name": "web", "service.istio.io/canonical-revision": "latest",
		},
	})
	require.NoError(t, err)
	return metadata
}

// peerOfTheNode sends a request through what a caller of Istio's build has, without its filters.
func peerOfTheNode(t *testing.T, r *adscript.Run) {
	heard := make(chan string, 1)
	called := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		heard <- request.Header.Get(proxystats.PeerHeader)
	}))
	t.Cleanup(called.Close)
	reserved, err := port.Reserve()
	require.NoError(t, err)
	t.Cleanup(reserved.Release)
	l := istioCaller(netip.MustParseAddrPort(reserved.Address))
	manager, filter := &hcmv3.HttpConnectionManager{}, l.GetFilterChains()[0].GetFilters()[0]
	require.NoError(t, filter.GetTypedConfig().UnmarshalTo(manager))
	manager.HttpFilters = manager.HttpFilters[len(manager.HttpFilters)-1:]
	filter.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: pb.Any(manager)}

	start(r)
	cluster := meteredCluster(called)
	r.Send(adscript.Push("1", cluster))
	r.Send(adscript.Push("1", l))
	r.Send(adscript.Push("1", adscript.RouteTable("rc", adscript.VirtualHost("v", cluster.GetName(), "*"))))
	r.Settle()
	r.Until("an answer", func() bool { return r.Get("l", "reviews", "/") == ok("") })
	require.Equal(t, proxystats.Workload{
		Name: "web-v1", Namespace: "shop", CanonicalName: "web", CanonicalRevision: "latest", Cluster: "Kubernetes",
		App: "web",
	}, proxystats.Parse(<-heard))
}
