package compile

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// What breaks a rule of Envoy's API is kept back alone: Envoy would refuse all of the response that
// it is in.
func TestWhatEnvoyWouldRefuseIsKeptBack(t *testing.T) {
	var refused []string
	e := newEmitter(resource.NewStore(), Refusals{
		Resource: func(name string, err error) { refused = append(refused, name) },
	})
	nameless := made{name: "cluster", message: &clusterv3.Cluster{}}
	require.Nil(t, e.emit(nameless, patched{}).Resource, "a cluster without a name")
	require.NotNil(t, e.emit(made{name: "cluster", message: &clusterv3.Cluster{Name: "cluster"}}, patched{}).Resource)

	r := e.emit(virtualHost("table", "vhost", &routev3.VirtualHost{
		Domains: []string{"a.test"},
		Routes:  []*routev3.Route{{}},
	}, model.NewInterner[string]().List([]string{"a.test"})), patched{})
	require.Equal(t, []string{"cluster", "vhost"}, refused)
	got := &routev3.VirtualHost{}
	require.NoError(t, proto.Unmarshal(r.Body(), got))
	require.Equal(t, "table/vhost", got.GetName())
	require.Equal(t, uint32(503), got.GetRoutes()[0].GetDirectResponse().GetStatus())
}
