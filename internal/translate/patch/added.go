package patch

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// AddedCluster returns the cluster that a patch adds for a context; nil for none. Without a context
// of its own it is added once: to a sidecar for its calls.
func AddedCluster(p *model.ConfigPatch, context model.PatchContext) (*clusterv3.Cluster, error) {
	return added[*clusterv3.Cluster](p, model.PatchCluster, context)
}

// AddedListener is AddedCluster for a listener.
func AddedListener(p *model.ConfigPatch, context model.PatchContext) (*listenerv3.Listener, error) {
	return added[*listenerv3.Listener](p, model.PatchListener, context)
}

// AddedHost returns the virtual host that a patch adds to a table; nil for none.
func AddedHost(p *model.ConfigPatch, at TableSite) (*routev3.VirtualHost, error) {
	if p.Target != model.PatchVirtualHost || p.Operation != model.PatchAdd || !p.IsFor(at.Context) ||
		!at.matches(p.Route) {
		return nil, nil
	}
	return value[*routev3.VirtualHost](Patch{ConfigPatch: p})
}

// AddedConfig returns the resource (ECDS) that a patch adds; nil for none.
func AddedConfig(p *model.ConfigPatch) (*corev3.TypedExtensionConfig, error) {
	if p.Target != model.PatchExtensionConfig {
		return nil, nil
	}
	return value[*corev3.TypedExtensionConfig](Patch{ConfigPatch: p})
}

// FilterConfig returns the resource that the filter of a patch is, which is Apart.
func FilterConfig(p Patch) (*corev3.TypedExtensionConfig, error) {
	f, err := value[*hcmv3.HttpFilter](p)
	if err != nil {
		return nil, err
	}
	return &corev3.TypedExtensionConfig{Name: f.GetName(), TypedConfig: f.GetTypedConfig()}, nil
}

func added[M proto.Message](
	p *model.ConfigPatch, target model.PatchTarget, context model.PatchContext,
) (none M, err error) {
	adds := p.Target == target && p.Operation == model.PatchAdd
	once := p.Context != model.AnyContext || context != model.SidecarInbound
	if !adds || !once || !p.IsFor(context) {
		return none, nil
	}
	return value[M](Patch{ConfigPatch: p})
}

// discovered says that a filter of requests is a resource of its own. Without the resource, and
// where the first one is refused, requests pass as if there were no filter.
func discovered(typeURL string) *corev3.ExtensionConfigSource {
	return pb.Discovered(typeURL, pb.ListOfFilters(nil))
}
