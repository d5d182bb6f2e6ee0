package convert

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// conversion reads an object of one kind.
type conversion func(*reader, metav1.Object) []Object

// conversions has all kinds of which something is converted.
func conversions() map[kinds.Kind]conversion {
	return map[kinds.Kind]conversion{
		kinds.Namespace:           converting((*reader).namespace),
		kinds.ConfigMap:           converting((*reader).configMap),
		kinds.Node:                converting((*reader).node),
		kinds.Service:             converting((*reader).service),
		kinds.EndpointSlice:       converting((*reader).endpointSlice),
		kinds.Pod:                 converting((*reader).pod),
		kinds.Ingress:             converting((*reader).kubernetesIngress),
		kinds.IngressClass:        converting((*reader).kubernetesIngressClass),
		kinds.Secret:              converting((*reader).secret),
		kinds.Gateway:             converting((*reader).gateway),
		kinds.VirtualService:      converting((*reader).virtualService),
		kinds.DestinationRule:     converting((*reader).destinationRule),
		kinds.ServiceEntry:        converting((*reader).serviceEntry),
		kinds.WorkloadEntry:       converting((*reader).workloadEntry),
		kinds.Sidecar:             converting((*reader).sidecar),
		kinds.AuthorizationPolicy: converting((*reader).authorizationPolicy),
		kinds.PeerAuthentication:  converting((*reader).peerAuthentication),
	}
}

// converting makes a conversion of one that is for objects of one type.
func converting[T metav1.Object](read func(*reader, T) []Object) conversion {
	return func(r *reader, o metav1.Object) []Object {
		typed, ok := o.(T)
		if !ok {
			return r.unreadable(o)
		}
		return read(r, typed)
	}
}

// convert converts an object as its kind says.
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

// ignore says that objects like this one mean nothing.
func (r *reader) ignore() []Object {
	r.ignored = true
	return nil
}

func (r *reader) unreadable(o metav1.Object) []Object {
	r.fail("", fmt.Sprintf("%T", o), "objects of this type cannot be read", "a kind that Lateen reads")
	return nil
}
