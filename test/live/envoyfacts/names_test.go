package envoyfacts

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	ondemandv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/on_demand/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
)

// TestClusterGoesByTheNameInItsBody_1_13 is about names and versions.
func TestClusterGoesByTheNameInItsBody_1_13(t *testing.T) {
	fact(t, "a cluster goes by the name in its body, also for its removal", func(t *testing.T, r *adscript.Run) {
		start(r)
		r.AwaitAck(r.Send(adscript.PushNamed(adscript.Clusters, "1",
			adscript.Resource{Name: "outer", Body: adscript.StaticCluster("inner")})))
		require.Contains(t, r.ActiveClusters(), "inner")
		r.AwaitAck(r.Send(adscript.Removal(adscript.Clusters, "outer")))
		require.Contains(t, r.ActiveClusters(), "inner")
		r.AwaitAck(r.Send(adscript.Removal(adscript.Clusters, "inner")))
		require.NotContains(t, r.ActiveClusters(), "inner")
	})
	fact(t, "a listener sent again as it is does not drain", func(t *testing.T, r *adscript.Run) {
		start(r)
		open(r, "l", adscript.RouteTable("rc", adscript.AnsweringHost("a", "a", "*")))
		before := r.Stat("listener_manager.listener_modified") + r.Stat("listener_manager.listener_in_place_updated")
		r.AwaitAck(r.Send(adscript.Push("2", adscript.HTTPListener("l", "rc", never))))
		require.Equal(t, before, r.Stat("listener_manager.listener_modified")+
			r.Stat("listener_manager.listener_in_place_updated"))
		require.Equal(t, ok("a"), r.Get("l", "a.test", "/"))
	})
	fact(t, "a removal of a name that is not there is ACKed", func(t *testing.T, r *adscript.Run) {
		start(r)
		r.AwaitAck(r.Send(adscript.Removal(adscript.Clusters, "none")))
		r.AwaitAck(r.Send(adscript.Removal(adscript.Listeners, "none")))
		require.Contains(t, r.ActiveClusters(), "anchor")
	})
}

// TestOnDemandClusterThatNeverWarmsBlocksOthers is the end of 1.9: an on-demand cluster that never
// warms blocks all other look-ups, so that its fetch must time out soon.
func TestOnDemandClusterThatNeverWarmsBlocksOthers(t *testing.T) {
	fact(t, "a cluster that does not warm blocks the next one", func(t *testing.T, r *adscript.Run) {
		start(r)
		r.Send(adscript.Push("1", onDemand(t, adscript.HTTPListener("l", "rc", never))))
		r.AwaitSubscribe(adscript.Routes, "rc")
		r.Send(adscript.Push("1", adscript.RouteTable("rc", adscript.VirtualHost("a", "a", "a.test"),
			adscript.VirtualHost("b", "b", "b.test"))))
		r.Until("it answers", func() bool { return r.Get("l", "none.test", "/").Status == 404 })

		first := r.Later("l", "a.test", "/")
		r.AwaitSubscribe(adscript.Clusters, "a")
		r.Send(adscript.Push("1", adscript.EDSCluster("a", "", never)))
		r.AwaitSubscribe(adscript.Endpoints, "a")
		mark := r.Mark()
		second := r.Later("l", "b.test", "/")
		require.Equal(t, 503, (<-first).Status, "when the look-up has lasted its own second")
		require.Equal(t, 503, (<-second).Status)
		requireQuiet(t, r, mark)
		r.Send(adscript.Push("1", adscript.Assignment("a")))
		r.AwaitSubscribe(adscript.Clusters, "b")
	})
}

// onDemand is the listener with on-demand look-ups of clusters, which last a second.
func onDemand(t *testing.T, l *listenerv3.Listener) *listenerv3.Listener {
	t.Helper()
	var hcm hcmv3.HttpConnectionManager
	config := l.GetFilterChains()[0].GetFilters()[0].GetTypedConfig()
	require.NoError(t, config.UnmarshalTo(&hcm))
	filter, err := anypb.New(&ondemandv3.OnDemand{Odcds: &ondemandv3.OnDemandCds{
		Source: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			ResourceApiVersion:    corev3.ApiVersion_V3,
		},
		Timeout: durationpb.New(soon),
	}})
	require.NoError(t, err)
	hcm.HttpFilters = append([]*hcmv3.HttpFilter{{
		Name: "envoy.filters.http.on_demand", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: filter},
	}}, hcm.GetHttpFilters()...)
	require.NoError(t, config.MarshalFrom(&hcm))
	return l
}
