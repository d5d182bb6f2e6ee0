package patch_test

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/patch"
)

func TestRoutesAreMatchedByTheirOwner(t *testing.T) {
	web := source.Key{Kind: kinds.HTTPRoute, Namespace: "shop", Name: "web"}
	owned := func(rule string, owner source.Key) *routev3.Route {
		return &routev3.Route{
			Name:  rule,
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{
				ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "a"},
			}},
			Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
				model.OwnerFilter: {Fields: map[string]*structpb.Value{
					model.OwnerField: structpb.NewStringValue(model.RoutesOwner(owner)),
				}},
			}},
		}
	}
	other := web
	other.Kind = kinds.VirtualService
	host := &routev3.VirtualHost{Name: "a", Domains: []string{"*"}, Routes: []*routev3.Route{
		owned("x", web), owned("y", web), owned("x", other), owned("x", source.Key{}),
	}}
	value := &routev3.Route{ResponseHeadersToRemove: []string{"x-seen"}}
	body, err := proto.Marshal(value)
	require.NoError(t, err)
	seen := func(rule string) (places []int) {
		by := model.NewInterner[patch.Patch]().List([]patch.Patch{{ConfigPatch: &model.ConfigPatch{
			Target: model.PatchHTTPRoute, Operation: model.PatchMerge,
			Route: model.RouteMatch{OfRoute: true, Owner: model.RoutesOwner(web), Route: rule},
			Value: model.PatchValue{Type: string(value.ProtoReflect().Descriptor().FullName()), Body: string(body)},
		}}})
		changed, outcome := patch.VirtualHost(host, patch.TableSite{}, by)
		for i, r := range changed.GetRoutes() {
			if len(r.GetResponseHeadersToRemove()) > 0 {
				places = append(places, i)
			}
		}
		require.Equal(t, []int{len(places)}, outcome.Matched)
		return places
	}
	require.Equal(t, []int{0, 1}, seen(""))
	require.Equal(t, []int{1}, seen("y"))
	require.Empty(t, seen("z"))
}
