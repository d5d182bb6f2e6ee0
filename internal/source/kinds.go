package source

import (
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingk8s "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NewObject returns an empty object of the type that Changes of this kind hold; nil for a kind that Lateen does not read.
func (k Kind) NewObject() metav1.Object {
	switch k {
	case Namespace:
		return &corev1.Namespace{}
	case Node:
		return &corev1.Node{}
	case Service:
		return &corev1.Service{}
	case ServiceAccount:
		return &corev1.ServiceAccount{}
	case Deployment:
		return &appsv1.Deployment{}
	case Pod:
		return &corev1.Pod{}
	case ConfigMap:
		return &corev1.ConfigMap{}
	case Ingress:
		return &networkingk8s.Ingress{}
	case IngressClass:
		return &networkingk8s.IngressClass{}
	case Secret:
		return &corev1.Secret{}
	case EndpointSlice:
		return &discoveryv1.EndpointSlice{}
	case Gateway:
		return &networkingv1.Gateway{}
	case VirtualService:
		return &networkingv1.VirtualService{}
	case DestinationRule:
		return &networkingv1.DestinationRule{}
	case ServiceEntry:
		return &networkingv1.ServiceEntry{}
	case Sidecar:
		return &networkingv1.Sidecar{}
	case AuthorizationPolicy:
		return &securityv1.AuthorizationPolicy{}
	case PeerAuthentication:
		return &securityv1.PeerAuthentication{}
	}
	return nil
}
