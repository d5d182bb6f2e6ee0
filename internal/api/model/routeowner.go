package model

import (
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// RoutesOwner returns how the metadata of routes name the object that they come from, where Istio's
// tools look for it: "/apis/networking.istio.io/v1/namespaces/shop/virtual-service/web".
func RoutesOwner(k source.Key) string {
	group, kind := kinds.NetworkingGroup, "virtual-service"
	if IsAttachedRoute(k.Kind) {
		group, kind = kinds.GatewayAPIGroup, strings.ToLower(string(k.Kind))
	}
	return strings.Join([]string{"/apis", group, "v1/namespaces", k.Namespace, kind, k.Name}, "/")
}

// Routes name their owner in their metadata of OwnerFilter, as OwnerField.
const (
	OwnerFilter = "istio"
	OwnerField  = "config"
)
