package convert

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// conversion reads an object of one kind.
type conversion func(*reader, metav1.Object) []Object

// conversions has all kinds that are converted.
func conversions() map[kinds.Kind]conversion {
	return map[kinds.Kind]conversion{
		kinds.Namespace:             typed((*reader).namespace),
		kinds.ConfigMap:             typed((*reader).configMap),
		kinds.Node:                  typed((*reader).node),
		kinds.Service:               typed((*reader).service),
		kinds.EndpointSlice:         typed((*reader).endpointSlice),
		kinds.Pod:                   typed((*reader).pod),
		kinds.Ingress:               typed((*reader).kubernetesIngress),
		kinds.IngressClass:          typed((*reader).kubernetesIngressClass),
		kinds.Secret:                typed((*reader).secret),
		kinds.Gateway:               typed((*reader).gateway),
		kinds.VirtualService:        typed((*reader).virtualService),
		kinds.DestinationRule:       typed((*reader).destinationRule),
		kinds.ServiceEntry:          typed((*reader).serviceEntry),
		kinds.WorkloadEntry:         typed((*reader).workloadEntry),
		kinds.WorkloadGroup:         typed((*reader).workloadGroup),
		kinds.Sidecar:               typed((*reader).sidecar),
		kinds.AuthorizationPolicy:   typed((*reader).authorizationPolicy),
		kinds.PeerAuthentication:    typed((*reader).peerAuthentication),
		kinds.RequestAuthentication: typed((*reader).requestAuthentication),
		kinds.Telemetry:             typed((*reader).telemetry),
		kinds.ProxyConfig:           typed((*reader).proxyConfigObject),
		kinds.EnvoyFilter:           typed((*reader).envoyFilter),
		kinds.WasmPlugin:            typed((*reader).wasmPlugin),
		kinds.TrafficExtension:      typed((*reader).trafficExtension),
		kinds.RateLimit:             typed((*reader).rateLimit),
		kinds.GatewayClass:          typed((*reader).gatewayClass),
		kinds.KubernetesGateway:     typed((*reader).kubernetesGateway),
		kinds.HTTPRoute:             typed((*reader).httpRouteObject),
		kinds.GRPCRoute:             typed((*reader).grpcRouteObject),
		kinds.TLSRoute:              typed((*reader).tlsRouteObject),
		kinds.TCPRoute:              typed((*reader).tcpRouteObject),
		kinds.ListenerSet:           typed((*reader).listenerSet),
		kinds.BackendTLSPolicy:      typed((*reader).backendTLSPolicy),
		kinds.ReferenceGrant:        typed((*reader).referenceGrant),
	}
}

// typed makes a conversion of a function for one Go type.
func typed[T metav1.Object](read func(*reader, T) []Object) conversion {
	return func(r *reader, o metav1.Object) []Object {
		typed, ok := o.(T)
		if !ok {
			return r.unreadable(o)
		}
		return read(r, typed)
	}
}

// convert converts an object by its kind.
func (r *reader) convert(o metav1.Object) []Object {
	kind := r.object.Kind
	if read := r.converter.conversions[kind]; read != nil {
		return read(r, o)
	}
	if kinds.Of(kind).LocalOnly {
		return r.ignore()
	}
	return r.unreadable(o)
}

// ignore records that objects like this one have no meaning.
func (r *reader) ignore() []Object {
	r.ignored = true
	return nil
}

func (r *reader) unreadable(o metav1.Object) []Object {
	r.fail("", fmt.Sprintf("%T", o), "objects of this type cannot be read", "a kind that Lateen reads")
	return nil
}
