package patch

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// Adds reports whether a patch adds a resource to proxies, for one side of calls. Without a context
// of its own it is added once: to a sidecar for its calls.
func Adds(p Patch, context model.PatchContext) bool {
	switch p.Target {
	case model.PatchCluster, model.PatchListener, model.PatchExtensionConfig:
	default:
		return false
	}
	once := p.Context != model.AnyContext || context != model.SidecarInbound
	return p.Operation == model.PatchAdd && once && p.IsFor(context)
}

// AddsHost reports whether a patch adds a virtual host to a table.
func AddsHost(p Patch, at TableSite) bool {
	return p.Target == model.PatchVirtualHost && p.Operation == model.PatchAdd && p.IsFor(at.Context) &&
		at.matches(p.Route)
}

// Addition returns what a patch adds: a cluster, a listener, a virtual host or a resource of a
// filter. Of a filter in a list it is the resource that it is where it is apart.
func Addition(p *model.ConfigPatch) (message, error) {
	m, err := value[message](Patch{ConfigPatch: p})
	if f, is := m.(filter); is && err == nil && p.Target.IsInOrder() {
		return &corev3.TypedExtensionConfig{Name: f.GetName(), TypedConfig: f.GetTypedConfig()}, nil
	}
	return m, err
}

// Bare returns a patch that adds a filter without the filter's configuration, for what names the
// filter where it is apart: another configuration changes nothing there.
func Bare(p *model.ConfigPatch) (*model.ConfigPatch, error) {
	m, err := value[message](Patch{ConfigPatch: p})
	if err != nil {
		return nil, err
	}
	switch f := m.(type) {
	case *hcmv3.HttpFilter:
		f.ConfigType = nil
	case *listenerv3.Filter:
		f.ConfigType = nil
	}
	body, err := pb.Marshal(m)
	if err != nil {
		return nil, err
	}
	bare := *p
	bare.Value.Body = string(body)
	return &bare, nil
}

// discovered says that the filter of a patch is a resource of its own. Without the resource, and
// where the first one is refused, its fallback takes its place. Without a fallback requests pass as
// if there were no filter, and none passes one that guards.
func discovered(p Patch) *corev3.ExtensionConfigSource {
	var fallback proto.Message
	switch isOfConnections := p.Target == model.PatchNetworkFilter; {
	case p.Fallback == model.FallbackDeny && isOfConnections:
		fallback = pb.DenyConnections()
	case p.Fallback == model.FallbackAllow && isOfConnections:
		fallback = pb.AllowConnections()
	case p.Fallback == model.FallbackDeny, p.Fallback == model.FallbackByType && guards(p):
		fallback = pb.DenyAll()
	case p.Fallback == model.FallbackAllow:
		fallback = pb.AllowAll()
	default:
		fallback = pb.ListOfFilters(nil)
	}
	return pb.Discovered(p.Value.Config, fallback)
}
