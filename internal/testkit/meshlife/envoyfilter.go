package meshlife

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	bufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

func drawEnvoyFilter(t *rapid.T, m model.Meta) *model.EnvoyFilter {
	out := &model.EnvoyFilter{
		Meta: m, Selection: drawSelection(t), Priority: one[int32](t, "priority", 0, 0, 0, -10, 10),
	}
	if one(t, "calls", false, false, true) {
		out.Calls = []model.Host{one(t, "called", hosts[0], hosts[1], hosts[2])}
	}
	for i := range one(t, "patches", 1, 1, 2, 3) {
		p := drawPatch(t)
		p.Index = i
		out.Patches = append(out.Patches, p)
	}
	return out
}

func drawPatch(t *rapid.T) *model.ConfigPatch {
	p := &model.ConfigPatch{
		Context: one(
			t, "context", model.AnyContext, model.SidecarInbound, model.SidecarOutbound, model.GatewayContext,
		),
		Proxy: one(
			t, "proxies", model.ProxyMatch{}, model.ProxyMatch{}, model.ProxyMatch{},
			model.ProxyMatch{Version: `^1\.30`},
			model.ProxyMatch{Metadata: model.LabelsOf(map[string]string{"TIER": "a"})},
		),
	}
	switch one(t, "target", "cluster", "listener", "filter", "filter", "table", "host", "route", "added") {
	case "cluster":
		drawClusterPatch(t, p)
	case "listener":
		drawListenerPatch(t, p)
	case "filter":
		drawFilterPatch(t, p)
	case "table":
		p.Target, p.Operation, p.Route = model.PatchRouteConfiguration, model.PatchMerge, drawRouteMatch(t, false)
		p.Value = valueOf("", &routev3.RouteConfiguration{
			ResponseHeadersToRemove: []string{one(t, "header", "x-a", "x-b")},
		})
	case "host":
		drawHostPatch(t, p)
	case "route":
		p.Target, p.Route = model.PatchHTTPRoute, drawRouteMatch(t, true)
		p.Operation = one(t, "operation", model.PatchInsertFirst, model.PatchAdd, model.PatchRemove)
		if p.Operation != model.PatchRemove {
			p.Value = valueOf("patched", answering("patched", one[uint32](t, "status", 200, 418)))
		}
	default:
		p.Target, p.Operation = model.PatchCluster, model.PatchAdd
		p.Value = valueOf("added", &clusterv3.Cluster{
			Name: "added", ConnectTimeout: durationpb.New(one[time.Duration](t, "timeout", 1, 2)),
			ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		})
	}
	return p
}

func drawClusterPatch(t *rapid.T, p *model.ConfigPatch) {
	p.Target = model.PatchCluster
	p.Operation = one(t, "operation", model.PatchMerge, model.PatchMerge, model.PatchRemove)
	p.Cluster = model.ClusterMatch{
		Service: one(t, "service", "", hosts[0], hosts[2]), Port: one[uint16](t, "port", 0, 0, 80, 9080),
		Subset: one(t, "subset", "", "", "v1"),
	}
	if p.Operation == model.PatchMerge {
		p.Value = valueOf("", &clusterv3.Cluster{
			ConnectTimeout: durationpb.New(one[time.Duration](t, "timeout", 0, 1, 2)),
		})
	}
}

func drawListenerPatch(t *rapid.T, p *model.ConfigPatch) {
	p.Target = model.PatchListener
	p.Operation = one(t, "operation", model.PatchMerge, model.PatchMerge, model.PatchRemove)
	p.Listener = model.ListenerMatch{
		Port: one[uint16](t, "port", 0, 80, 9080, 3306), Name: one(t, "name", "", "", "virtualInbound"),
	}
	if p.Operation == model.PatchMerge {
		p.Value = valueOf("", &listenerv3.Listener{
			PerConnectionBufferLimitBytes: wrapperspb.UInt32(one[uint32](t, "limit", 1024, 2048)),
		})
	}
}

func drawFilterPatch(t *rapid.T, p *model.ConfigPatch) {
	p.Target = model.PatchHTTPFilter
	p.Operation = one(t, "operation", model.PatchInsertBefore, model.PatchInsertFirst, model.PatchAdd, model.PatchMerge)
	p.Listener = model.ListenerMatch{
		Port: one[uint16](t, "port", 0, 0, 80, 9080),
		Chain: model.ChainMatch{
			Filter: "envoy.filters.network.http_connection_manager",
			SubFilter: one(
				t, "filter", "envoy.filters.http.router", "envoy.filters.http.router", "envoy.filters.http.rbac",
				"envoy.filters.http.buffer",
			),
		},
	}
	config, _ := anypb.New(&bufferv3.Buffer{MaxRequestBytes: wrapperspb.UInt32(one[uint32](t, "limit", 1024, 2048))})
	name := one(t, "name", "envoy.filters.http.buffer", "envoy.filters.http.buffer", "other")
	p.Value = valueOf(name, &hcmv3.HttpFilter{
		Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: config},
	})
	p.Value.Config = config.GetTypeUrl()
}

func drawHostPatch(t *rapid.T, p *model.ConfigPatch) {
	p.Target, p.Route = model.PatchVirtualHost, drawRouteMatch(t, true)
	p.Operation = one(t, "operation", model.PatchMerge, model.PatchAdd, model.PatchRemove)
	switch p.Operation {
	case model.PatchMerge:
		p.Value = valueOf("", &routev3.VirtualHost{IncludeRequestAttemptCount: true})
	case model.PatchAdd:
		p.Value = valueOf("status", &routev3.VirtualHost{
			Name: "status", Domains: []string{"status.example.com"},
			Routes: []*routev3.Route{answering("", one[uint32](t, "status", 200, 418))},
		})
	}
}

func drawRouteMatch(t *rapid.T, host bool) model.RouteMatch {
	m := model.RouteMatch{Port: one[uint16](t, "port", 0, 0, 80, 9080)}
	if host {
		m.Host = one(t, "host", "", string(hosts[0])+":80", string(hosts[2])+":9080")
	}
	return m
}

func answering(name string, status uint32) *routev3.Route {
	return &routev3.Route{
		Name: name, Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: status}},
	}
}

// valueOf is the value of a patch, as the conversion makes it.
func valueOf(name string, m proto.Message) model.PatchValue {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return model.PatchValue{Type: string(m.ProtoReflect().Descriptor().FullName()), Body: string(body), Name: name}
}
