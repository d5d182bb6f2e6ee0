package meshgen

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lateen-mesh/lateen/internal/source"
)

// Estate is a large cluster of like applications, with names as Kubernetes makes them. Service i is
// in namespace i modulo Namespaces; pod p is of service p modulo Services.
type Estate struct {
	Namespaces, Services, Pods int
	// Policies gives each service a VirtualService and a DestinationRule with a subset.
	Policies bool
	// Ports is how many ports the pods of a namespace listen on, those of one service on one; 0 is
	// 1.
	Ports int
}

// Objects are all objects of the estate, in an order in which nothing waits for what comes later.
func (e Estate) Objects() []source.Change {
	var all []source.Change
	for n := range e.Namespaces {
		all = append(all, Upsert(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace(n)}}))
	}
	for p := range e.Pods {
		all = append(all, Upsert(e.Pod(p)))
	}
	for i := range e.Services {
		all = append(all, Upsert(e.Service(i)))
		if e.Pods > 0 {
			all = append(all, Upsert(e.Slice(i)))
		}
		if e.Policies {
			all = append(all, Upsert(e.Routes(i)), Upsert(e.Rule(i)))
		}
	}
	return all
}

// Proxies are those of the first n pods. If there are as many services, they are of n classes, as
// far as the services of a namespace have a port each.
func (e Estate) Proxies(n int) []Proxy {
	all := make([]Proxy, n)
	for p := range all {
		all[p] = proxyAt(e.Pod(p))
	}
	return all
}

// Namespace is the name of a service's namespace.
func (e Estate) Namespace(i int) string { return fmt.Sprintf("team-%03d", i%e.Namespaces) }

// Name is the name of a service, and of its policies.
func (e Estate) Name(i int) string { return fmt.Sprintf("checkout-%04d", i) }

func (e Estate) meta(i int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: e.Namespace(i), Name: e.Name(i), CreationTimestamp: metav1.Unix(1700000000, 0),
		UID: types.UID(fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012x", i)),
	}
}

// Service is a Service of Kubernetes with one port.
func (e Estate) Service(i int) *corev1.Service {
	s := &corev1.Service{ObjectMeta: e.meta(i)}
	s.Spec.ClusterIP = address(10, 96<<16+i)
	s.Spec.Selector = map[string]string{"app": s.Name}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 8080, TargetPort: intstr.FromInt32(e.port(i))}}
	return s
}

// port is the one that the pods of a service listen on.
func (e Estate) port(i int) int32 { return int32(8080 + i/e.Namespaces%max(e.Ports, 1)) }

// Pod is one pod of service p modulo Services.
func (e Estate) Pod(p int) *corev1.Pod {
	of := p % e.Services
	pod := &corev1.Pod{ObjectMeta: e.meta(of)}
	hash := fmt.Sprintf("%08x", uint32(of)*2654435761)
	pod.Name = fmt.Sprintf("%s-%s-%05x", e.Name(of), hash, p)
	pod.UID = ""
	pod.Labels = map[string]string{
		"app": e.Name(of), "version": "v1", "pod-template-hash": hash, "service.istio.io/canonical-name": e.Name(of),
		"service.istio.io/canonical-revision": "v1", "security.istio.io/tlsMode": "istio",
	}
	pod.Spec.ServiceAccountName = e.Name(of)
	pod.Spec.NodeName = fmt.Sprintf("ip-10-0-%d-17.eu-central-1.compute.internal", p%200)

	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, address(127, 1<<16+p)
	return pod
}

// Slice is the EndpointSlice of a service, with all its pods.
func (e Estate) Slice(i int) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: e.meta(i), AddressType: discoveryv1.AddressTypeIPv4}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: s.Name}
	s.Name += "-x7k2p"
	name, number, zone, ready := "http", e.port(i), "eu-central-1a", true
	s.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &number}}
	for p := i; p < e.Pods; p += e.Services {
		pod := e.Pod(p)
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{pod.Status.PodIP},
			NodeName:   &pod.Spec.NodeName,
			Zone:       &zone,
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name},
		})
	}
	return s
}

// Routes sends the requests for a service to its subset.
func (e Estate) Routes(i int) *networkingv1.VirtualService {
	v := &networkingv1.VirtualService{ObjectMeta: e.meta(i)}
	v.Spec.Hosts = []string{v.Name}
	v.Spec.Http = []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{{
		Destination: &networking.Destination{Host: v.Name, Subset: "v1"},
	}}}}
	return v
}

// Rule defines the subset of a service.
func (e Estate) Rule(i int) *networkingv1.DestinationRule {
	r := &networkingv1.DestinationRule{ObjectMeta: e.meta(i)}
	r.Spec.Host = r.Name
	r.Spec.Subsets = []*networking.Subset{{Name: "v1", Labels: map[string]string{"version": "v1"}}}
	return r
}
