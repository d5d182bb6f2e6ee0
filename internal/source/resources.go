package source

import "k8s.io/apimachinery/pkg/runtime/schema"

// The groups of Istio's API, of which Lateen reads version v1.
const (
	NetworkingGroup = "networking.istio.io"
	SecurityGroup   = "security.istio.io"
)

// Istio tells where the API server serves a kind of Istio's API, which all have a status; ok is false for all other kinds.
func (k Kind) Istio() (resource schema.GroupVersionResource, ok bool) {
	group, name := NetworkingGroup, ""
	switch k {
	case Gateway:
		name = "gateways"
	case VirtualService:
		name = "virtualservices"
	case DestinationRule:
		name = "destinationrules"
	case ServiceEntry:
		name = "serviceentries"
	case Sidecar:
		name = "sidecars"
	case AuthorizationPolicy:
		group, name = SecurityGroup, "authorizationpolicies"
	case PeerAuthentication:
		group, name = SecurityGroup, "peerauthentications"
	default:
		return schema.GroupVersionResource{}, false
	}
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}, true
}

// IstioKinds are the kinds of Istio's API that Lateen reads.
func IstioKinds() []Kind {
	return []Kind{Gateway, VirtualService, DestinationRule, ServiceEntry, Sidecar, AuthorizationPolicy, PeerAuthentication}
}
