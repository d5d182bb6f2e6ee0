package source

import "github.com/lateen-mesh/lateen/internal/api/kinds"

// Kind stands for kinds.Kind until its users say so themselves.
type Kind = kinds.Kind

// The kinds, likewise.
const (
	Namespace           = kinds.Namespace
	Node                = kinds.Node
	Service             = kinds.Service
	ServiceAccount      = kinds.ServiceAccount
	Deployment          = kinds.Deployment
	Pod                 = kinds.Pod
	ConfigMap           = kinds.ConfigMap
	EndpointSlice       = kinds.EndpointSlice
	Gateway             = kinds.Gateway
	VirtualService      = kinds.VirtualService
	DestinationRule     = kinds.DestinationRule
	ServiceEntry        = kinds.ServiceEntry
	Sidecar             = kinds.Sidecar
	Secret              = kinds.Secret
	Ingress             = kinds.Ingress
	IngressClass        = kinds.IngressClass
	AuthorizationPolicy = kinds.AuthorizationPolicy
	PeerAuthentication  = kinds.PeerAuthentication
)
