package load

import (
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// part is a range of similar services with their pods. Services and pods are numbered through all
// parts.
type part struct{ service, services, pod, pods int }

// parts returns the services of the mesh, those without sidecars, and gateways.
func (s Shape) parts() [3]part {
	managed := part{services: s.Services, pods: s.Pods}
	others := part{service: s.Services, services: s.UnmanagedServices, pod: s.Pods, pods: s.UnmanagedPods}
	gateways := part{service: others.service + others.services, pod: others.pod + others.pods}
	if s.Gateways {
		gateways.services, gateways.pods = s.Namespaces, s.Namespaces
	}
	return [...]part{managed, others, gateways}
}

func (s Shape) gateways() part { return s.parts()[2] }

// AllServices returns how many services all parts have.
func (s Shape) AllServices() int { g := s.gateways(); return g.service + g.services }

// AllPods returns how many pods all parts have: those of the mesh, those without sidecars, and
// gateways, in this order.
func (s Shape) AllPods() int { g := s.gateways(); return g.pod + g.pods }

// Routers returns how many gateways there are.
func (s Shape) Routers() int { return s.gateways().pods }

// FirstRouter is the place of the first gateway's pod; the others follow.
func (s Shape) FirstRouter() int { return s.gateways().pod }

// partOf returns the part of a service.
func (s Shape) partOf(service int) part {
	parts := s.parts()
	for _, p := range parts[:2] {
		if service < p.service+p.services {
			return p
		}
	}
	return parts[2]
}

// ServiceOf returns the service of a pod.
func (s Shape) ServiceOf(pod int) int {
	for _, p := range s.parts() {
		if pod < p.pod+p.pods {
			return p.service + (pod-p.pod)%p.services
		}
	}
	return 0
}

// place returns the place of the nth pod of a service, or false if there is none.
func (s Shape) place(service, n int) (int, bool) {
	p := s.partOf(service)
	at := service - p.service + n*p.services
	return p.pod + at, at < p.pods
}

// numberOf returns the index of a place among the pods of its service.
func (s Shape) numberOf(place int) int {
	p := s.partOf(s.ServiceOf(place))
	return (place - p.pod) / p.services
}

// gateway returns the Gateway of a gateway's pods. It serves HTTP on the port of all services.
func (s Shape) gateway(service int) source.Change {
	o := &networkingv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace(service), Name: ServiceName(service)},
	}
	o.Spec.Selector = map[string]string{"app": ServiceName(service)}
	o.Spec.Servers = []*networking.Server{{
		Port: &networking.Port{Number: servicePort, Name: "http", Protocol: "HTTP"}, Hosts: []string{"*"},
	}}
	return upsert(kinds.Gateway, o)
}

// gatewaysOf returns the gateways of a service's routes. None means the mesh only.
func (s Shape) gatewaysOf(service int) []string {
	if !s.Gateways {
		return nil
	}
	return []string{"mesh", s.Namespace(service) + "/" + ServiceName(s.gateways().service+service%s.Namespaces)}
}
