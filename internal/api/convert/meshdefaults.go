package convert

import (
	"strings"

	mesh "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"
)

// The key of the mesh networks, and what Istio's chart writes into the mesh configuration of a mesh
// whose user has set nothing.
const (
	meshNetworksKey  = "meshNetworks"
	defaultProvider  = "prometheus"
	discoveryService = "istiod"
	discoveryPort    = ":15012"
)

// withoutDefaults leaves out what Istio's chart writes when nobody asks for anything, so that the
// default mesh configuration is not reported: the address of the control plane itself.
func (r *reader) withoutDefaults(spec *mesh.MeshConfig) {
	if merge := spec.GetEnablePrometheusMerge(); merge.GetValue() || r.converter.injects {
		spec.EnablePrometheusMerge = nil // it is the injector's
	}
	address := spec.GetDefaultConfig().GetDiscoveryAddress()
	host, own := strings.CutSuffix(address, ".svc"+discoveryPort)
	if own && strings.HasPrefix(host, discoveryService) {
		spec.DefaultConfig.DiscoveryAddress = ""
	}
}

// isEmptyNetworks reports whether the text under meshNetworks names no network.
func isEmptyNetworks(text string) bool {
	var networks struct {
		Networks map[string]any `json:"networks"`
	}
	return yaml.UnmarshalStrict([]byte(text), &networks) == nil && len(networks.Networks) == 0
}
