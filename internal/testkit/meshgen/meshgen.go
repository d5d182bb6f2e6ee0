package meshgen

import (
	"fmt"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	networkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

const (
	// Namespaces is how many there are, at every size.
	Namespaces = 50
	// Kinds is how many kinds of services take turns within a namespace.
	Kinds = 20
	// Block is the number of services after which the mesh repeats itself; sizes should be
	// multiples of it.
	Block = Namespaces * Kinds
	// Pods is how many a service has.
	Pods = 2
	// Root is the root namespace, where the gateway runs.
	Root = "istio-system"
)

// Mesh is a mesh of so many services.
type Mesh struct{ Services int }

// Objects are all objects of the mesh, in an order in which nothing waits for what comes later.
func (m Mesh) Objects() []source.Change {
	var all []source.Change
	for n := range Namespaces {
		all = append(all, Upsert(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace(n)}}))
		if s := Sidecar(n); s != nil {
			all = append(all, Upsert(s))
		}
	}
	all = append(all, Upsert(Gateway()), Upsert(gatewayPod()))
	for i := range m.Services {
		for _, o := range objectsOf(i) {
			all = append(all, Upsert(o))
		}
	}
	return all
}

// objectsOf are the objects around one service.
func objectsOf(i int) []metav1.Object {
	var all []metav1.Object
	if KindOf(i) >= LookedUp {
		all = append(all, ServiceEntry(i))
	} else {
		for p := range Pods {
			all = append(all, Pod(i, p))
		}
		all = append(all, Service(i), Slice(i))
	}
	if v := VirtualService(i); v != nil {
		all = append(all, v)
	}
	if r := DestinationRule(i); r != nil {
		all = append(all, r)
	}
	return all
}

// Namespace is the name of a namespace.
func Namespace(n int) string { return fmt.Sprintf("ns%02d", n%Namespaces) }

// Name is the name of a service and of all objects around it.
func Name(i int) string { return fmt.Sprintf("svc-%05d", i) }

// Number is the service of a kind in a namespace, in the first block.
func Number(namespace int, k Kind) int { return int(k)*Namespaces + namespace }

func meta(i int) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: Namespace(i), Name: Name(i)} }

// Upsert makes the change that creates or updates an object.
func Upsert(o metav1.Object) source.Change {
	return source.Change{Key: source.Key{Kind: kindOf(o), Namespace: o.GetNamespace(), Name: o.GetName()}, Object: o}
}

// Delete makes the change that deletes an object.
func Delete(o metav1.Object) source.Change {
	c := Upsert(o)
	c.Object = nil
	return c
}

func kindOf(o metav1.Object) kinds.Kind {
	switch o.(type) {
	case *corev1.Namespace:
		return kinds.Namespace
	case *corev1.Service:
		return kinds.Service
	case *gatewayv1.Gateway:
		return kinds.KubernetesGateway
	case *gatewayv1.ListenerSet:
		return kinds.ListenerSet
	case *gatewayv1.HTTPRoute:
		return kinds.HTTPRoute
	case *gatewayv1.GRPCRoute:
		return kinds.GRPCRoute
	case *gatewayv1.TLSRoute:
		return kinds.TLSRoute
	case *gatewayv1.TCPRoute:
		return kinds.TCPRoute
	case *gatewayv1.BackendTLSPolicy:
		return kinds.BackendTLSPolicy
	case *gatewayv1.ReferenceGrant:
		return kinds.ReferenceGrant
	case *corev1.Pod:
		return kinds.Pod
	case *discoveryv1.EndpointSlice:
		return kinds.EndpointSlice
	case *networkingv1.VirtualService:
		return kinds.VirtualService
	case *networkingv1.DestinationRule:
		return kinds.DestinationRule
	case *networkingv1.ServiceEntry:
		return kinds.ServiceEntry
	case *networkingv1.Sidecar:
		return kinds.Sidecar
	case *networkingv1.Gateway:
		return kinds.Gateway
	case *networkingv1alpha3.EnvoyFilter:
		return kinds.EnvoyFilter
	case *securityv1.AuthorizationPolicy:
		return kinds.AuthorizationPolicy
	case *securityv1.RequestAuthentication:
		return kinds.RequestAuthentication
	case *corev1.ConfigMap:
		return kinds.ConfigMap
	}
	panic(fmt.Sprintf("meshgen: %T", o))
}
