package compile_test

import (
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// naming are the fields of Envoy's API that name another resource, by type. A filter or policy that
// brings another one has to be added here, and then to Refs.
var naming = map[protoreflect.FullName]resource.Type{
	"envoy.config.route.v3.RouteAction.cluster":                                                 resource.Cluster,
	"envoy.config.route.v3.WeightedCluster.ClusterWeight.name":                                  resource.Cluster,
	"envoy.config.route.v3.RouteAction.RequestMirrorPolicy.cluster":                             resource.Cluster,
	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.cluster":                            resource.Cluster,
	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy.WeightedCluster.ClusterWeight.name": resource.Cluster,
	"envoy.extensions.filters.network.http_connection_manager.v3.Rds.route_config_name":         resource.Route,
	"envoy.config.core.v3.GrpcService.EnvoyGrpc.cluster_name":                                   resource.Cluster,
	"envoy.config.core.v3.HttpUri.cluster":                                                      resource.Cluster,
	"envoy.extensions.filters.network.http_connection_manager.v3." +
		"HttpConnectionManager.Tracing.cluster_name": resource.Cluster,
}

// checkRefs compares the references of resources, which are gathered field by field, with a walk
// over all fields.
func checkRefs(t *testing.T, st resource.State) {
	for r := range st.Set(resource.Listener).All() {
		checkRefsOf(t, r, &listenerv3.Listener{})
	}
	for table := range st.Set(resource.Route).All() {
		require.Zero(t, table.Refs(), "a table's are its virtual hosts'")
	}
	for r := range st.Set(resource.VirtualHost).All() {
		checkRefsOf(t, r, &routev3.VirtualHost{})
	}
	for r := range st.Set(resource.Cluster).All() {
		found := checkRefsOf(t, r, &clusterv3.Cluster{})
		require.Equal(
			t, distinct(found[resource.Secret]), slices.Collect(r.Refs().Secrets.All()), "secrets of %s", r.Name(),
		)
	}
}

func checkRefsOf(t *testing.T, r *resource.Resource, m proto.Message) (found map[resource.Type][]string) {
	require.NoError(t, proto.Unmarshal(r.Body(), m))
	found = map[resource.Type][]string{}
	walk(t, m.ProtoReflect(), found)
	named := map[resource.Type]*model.List[string]{
		resource.Cluster: r.Refs().Clusters, resource.Route: r.Refs().Routes,
	}
	for typ, list := range named {
		require.Equal(t, distinct(found[typ]), slices.Collect(list.All()), "%s of %s", typ, r.Name())
	}
	return found
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

func walk(t *testing.T, m protoreflect.Message, found map[resource.Type][]string) {
	if a, ok := m.Interface().(*anypb.Any); ok {
		if a.GetTypeUrl() == "" { // it turns a filter on
			return
		}
		inner, err := a.UnmarshalNew()
		require.NoError(t, err)
		walk(t, inner.ProtoReflect(), found)
		return
	}
	if s, ok := m.Interface().(*tlsv3.SdsSecretConfig); ok {
		if s.GetSdsConfig().GetAds() != nil { // else its agent has it
			found[resource.Secret] = append(found[resource.Secret], s.GetName())
		}
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if typ, ok := naming[fd.FullName()]; ok {
			found[typ] = append(found[typ], v.String())
		}
		switch {
		case fd.Kind() == protoreflect.MessageKind && fd.Message().FullName() == "envoy.config.core.v3.ApiConfigSource":
			// a source of configuration of its own, as an agent is, is reached by a cluster of the
			// bootstrap
		case fd.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				if fd.MapValue().Kind() == protoreflect.MessageKind {
					walk(t, v.Message(), found)
				}
				return true
			})
		case fd.Kind() != protoreflect.MessageKind:
		case fd.IsList():
			for i := range v.List().Len() {
				walk(t, v.List().Get(i).Message(), found)
			}
		default:
			walk(t, v.Message(), found)
		}
		return true
	})
}
