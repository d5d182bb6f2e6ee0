package patch_test

import (
	"slices"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	extensions "istio.io/api/extensions/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/extension"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/patch"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// extensionOf is an object, with its name as priority and phase say.
func extensionOf(name string, phase extensions.TrafficExtension_ExecutionPhase, priority int32) *model.EnvoyFilter {
	key := source.Key{Kind: kinds.TrafficExtension, Namespace: "shop", Name: name}
	spec := extension.Spec{
		Object: key, Path: "spec.lua", Phase: phase, Lua: &extensions.LuaConfig{InlineCode: "-- nothing"},
	}
	if name == "connections" || name == "module" {
		spec.Lua, spec.Wasm = nil, &extensions.WasmConfig{Url: "file:///a.wasm"}
		if name == "connections" {
			spec.Wasm.Type = extensions.PluginType_NETWORK
		}
	}
	f := &model.EnvoyFilter{
		Meta: model.Meta{Kind: key.Kind, Namespace: key.Namespace, Name: name}, Priority: priority,
	}
	f.Phase, f.Patches, _ = extension.Read(spec)
	return f
}

func ordered(all ...*model.EnvoyFilter) (list []patch.Patch) {
	slices.SortFunc(all, func(a, b *model.EnvoyFilter) int { return model.CompareFilters(a, b, "istio-system") })
	for _, f := range all {
		for _, p := range f.Patches {
			list = append(list, patch.Patch{ConfigPatch: p, Owner: f.Key(), Apart: patch.MustBeApart(p)})
		}
	}
	return list
}

// listenerWith is a listener with filters of requests in front of its router.
func listenerWith(names ...string) *listenerv3.Listener {
	manager := &hcmv3.HttpConnectionManager{StatPrefix: "a"}
	add := func(name string, config proto.Message) {
		manager.HttpFilters = append(manager.HttpFilters, &hcmv3.HttpFilter{
			Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pb.Any(config)},
		})
	}
	for _, name := range names {
		add(name, &luav3.Lua{})
	}
	add("router", &routerv3.Router{})
	return &listenerv3.Listener{Name: "virtualInbound", FilterChains: []*listenerv3.FilterChain{{
		Filters: []*listenerv3.Filter{{Name: "manager", ConfigType: &listenerv3.Filter_TypedConfig{
			TypedConfig: pb.Any(manager),
		}}},
	}}}
}

// namesIn are the names of the filters of connections and of requests.
func namesIn(t *testing.T, l *listenerv3.Listener) (connections, requests []string) {
	for _, f := range l.GetFilterChains()[0].GetFilters() {
		connections = append(connections, f.GetName())
		manager := &hcmv3.HttpConnectionManager{}
		if f.GetTypedConfig().MessageIs(manager) {
			require.NoError(t, f.GetTypedConfig().UnmarshalTo(manager))
			for _, h := range manager.GetHttpFilters() {
				requests = append(requests, h.GetName())
			}
		}
	}
	return connections, requests
}

func TestExtensionsStandAsTheirPhasesSay(t *testing.T) {
	const (
		authn, authz = extensions.TrafficExtension_AUTHN, extensions.TrafficExtension_AUTHZ
		stats, last  = extensions.TrafficExtension_STATS, extensions.TrafficExtension_UNSPECIFIED
		of           = "extensions.istio.io/trafficextension/shop."
	)
	older := extensionOf("older", stats, 0)
	older.Created = -1
	root := extensionOf("root", last, 0)
	root.Namespace = "istio-system"
	list := ordered(
		extensionOf("last", last, 0), extensionOf("stats", stats, 0), older, extensionOf("authz", authz, -5),
		extensionOf("authz5", authz, 5), extensionOf("authn", authn, 0), extensionOf("authn7", authn, 7), root,
		extensionOf("module", authn, -1), extensionOf("connections", authn, 0),
	)
	by := model.NewInterner[patch.Patch]().List(list)
	for _, c := range []struct{ has, want []string }{
		{
			[]string{pb.ExchangeFilter, pb.TokenFilter, pb.ExtAuthzFilter, pb.RBACFilter, pb.RBACFilter, "cors"},
			[]string{
				pb.ExchangeFilter, of + "authn7", of + "authn", of + "module", pb.TokenFilter, of + "authz5",
				of + "authz", pb.ExtAuthzFilter, pb.RBACFilter, pb.RBACFilter, of + "older", of + "stats", of + "last",
				of + "root", "cors", "router",
			},
		},
		{[]string{"cors"}, []string{
			of + "authn7", of + "authn", of + "module", of + "authz5", of + "authz", of + "older", of + "stats",
			of + "last", of + "root", "cors", "router",
		}},
	} {
		l, out := patch.Listener(listenerWith(c.has...), model.SidecarInbound, by)
		for _, err := range out.Failed {
			require.NoError(t, err)
		}
		connections, requests := namesIn(t, l)
		require.Equal(t, c.want, requests)
		require.Equal(t, []string{of + "connections", "manager"}, connections)
		require.Contains(t, l.GetFilterChains()[0].GetFilters()[0].GetConfigDiscovery().GetTypeUrls(),
			"type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC")
	}
}
