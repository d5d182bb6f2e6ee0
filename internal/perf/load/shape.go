package load

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Root is Istio's root namespace. A Sidecar there applies to all namespaces.
const Root = "istio-system"

// Prefix begins the names of nodes and of all other namespaces.
const Prefix = "perf-"

// Shape is the size of a mesh.
type Shape struct {
	Namespaces int `json:"namespaces"`
	Services   int `json:"services"`
	// Pods are spread over the services: service s has the pods p with p % Services = s.
	Pods int `json:"pods"`
	// VirtualServices have one route each, for the first services.
	VirtualServices int `json:"virtualServices"`
	// Isolated limits proxies to their own namespace and the root namespace, by one Sidecar for the
	// whole mesh.
	Isolated bool `json:"isolated,omitempty"`
	// Unmanaged namespaces have services and pods without sidecars. Proxies see them as any other.
	UnmanagedNamespaces int `json:"unmanagedNamespaces,omitempty"`
	UnmanagedServices   int `json:"unmanagedServices,omitempty"`
	UnmanagedPods       int `json:"unmanagedPods,omitempty"`
	// UnmanagedApart limits proxies of the unmanaged namespaces, if there are any, to their own
	// namespace, by a Sidecar in each.
	UnmanagedApart bool `json:"unmanagedApart,omitempty"`
	// Gateways adds one gateway to each managed namespace: a pod whose proxy is a router, a
	// Service, and a Gateway to which the namespace's VirtualServices are bound.
	Gateways bool `json:"gateways,omitempty"`
}

// Limits of the address ranges.
const (
	MaxPods     = 200<<16 - 2
	MaxServices = 53 << 16
)

// Validate reports which part of a shape is out of range.
func (s Shape) Validate() error {
	switch {
	case s.Namespaces < 1:
		return errors.New("a mesh has at least one namespace")
	case s.Services < s.Namespaces:
		return fmt.Errorf("%d services in %d namespaces: each namespace has at least one", s.Services, s.Namespaces)
	case min(s.UnmanagedNamespaces, s.UnmanagedServices, s.UnmanagedPods, s.Pods) < 0:
		return errors.New("namespaces, services and pods: want 0 or more of each")
	case s.UnmanagedServices < s.UnmanagedNamespaces || s.UnmanagedServices > 0 &&
		s.UnmanagedNamespaces == 0 || s.UnmanagedPods > 0 && s.UnmanagedServices == 0:
		return errors.New(
			"what is unmanaged: each pod is of a service, each service in a namespace, and each of these " +
				"namespaces has a service",
		)
	case s.AllServices() > MaxServices:
		return fmt.Errorf("%d services: there are addresses for %d", s.AllServices(), MaxServices)
	case s.AllPods() > MaxPods:
		return fmt.Errorf("%d pods: there are addresses for %d", s.AllPods(), MaxPods)
	case s.VirtualServices < 0 || s.VirtualServices > s.Services:
		return fmt.Errorf(
			"%d VirtualServices: want 0 to %d, one for each service at most", s.VirtualServices, s.Services,
		)
	}
	return nil
}

// Namespace returns the namespace of a service.
func (s Shape) Namespace(service int) string {
	switch p := s.partOf(service); {
	case p.service == 0:
		return namespaceName(service % s.Namespaces)
	case p == s.gateways():
		return namespaceName(service - p.service)
	default:
		return otherNamespace((service - p.service) % s.UnmanagedNamespaces)
	}
}

func namespaceName(n int) string  { return fmt.Sprintf("%s%03d", Prefix, n) }
func otherNamespace(n int) string { return fmt.Sprintf("%sother-%03d", Prefix, n) }

// namespaces returns the names of all namespaces but the root namespace.
func (s Shape) namespaces() (names []string) {
	for n := range s.Namespaces {
		names = append(names, namespaceName(n))
	}
	for n := range s.UnmanagedNamespaces {
		names = append(names, otherNamespace(n))
	}
	return names
}

// Objects returns all objects of the mesh but its pods and their endpoints. Each object comes after
// those it refers to.
func (s Shape) Objects() []source.Change {
	all := []source.Change{upsert(kinds.Namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Root}})}
	for _, name := range s.namespaces() {
		all = append(all, upsert(kinds.Namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	if s.Isolated {
		all = append(all, upsert(kinds.Sidecar, isolation()))
	}
	if s.UnmanagedApart {
		for n := range s.UnmanagedNamespaces {
			all = append(all, upsert(kinds.Sidecar, sidecar(otherNamespace(n), "./*")))
		}
	}
	for i := range s.AllServices() {
		all = append(all, upsert(kinds.Service, s.service(i)))
	}
	for i := s.gateways().service; i < s.AllServices(); i++ {
		all = append(all, s.gateway(i))
	}
	for i := range s.VirtualServices {
		all = append(all, s.Route(i, 0))
	}
	return all
}

func upsert(kind kinds.Kind, o metav1.Object) source.Change {
	return source.Change{Key: source.Key{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}, Object: o}
}

func deleted(c source.Change) source.Change {
	c.Object = nil
	return c
}
