package load

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// The port of every service, and the one on which its pods listen.
const (
	servicePort = 80
	targetPort  = 8080
)

// ServiceName is the name of a service and of the objects around it.
func ServiceName(service int) string { return fmt.Sprintf("svc-%05d", service) }

// Host is the name by which a service is called.
func (s Shape) Host(service int) string {
	return ServiceName(service) + "." + s.Namespace(service) + ".svc.cluster.local"
}

// Cluster is the name of the Envoy cluster of a service.
func (s Shape) Cluster(service int) string { return clusterOf(s.Host(service)) }

func clusterOf(host string) string { return fmt.Sprintf("outbound|%d||%s", servicePort, host) }

func (s Shape) service(i int) *corev1.Service {
	o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace(i), Name: ServiceName(i)}}
	o.Spec.Selector = map[string]string{"app": ServiceName(i)}
	o.Spec.ClusterIP = address(200<<16 + i)
	o.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: servicePort, TargetPort: intstr.FromInt32(targetPort), Protocol: corev1.ProtocolTCP}}
	return o
}

// address is the nth of 10.0.0.0/8.
func address(n int) string { return fmt.Sprintf("10.%d.%d.%d", byte(n>>16), byte(n>>8), byte(n)) }

// Route is the VirtualService of a service, marked.
func (s Shape) Route(service int, m Marker) source.Change {
	host := s.Host(service)
	o := &networkingv1.VirtualService{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace(service), Name: ServiceName(service)}}
	o.Spec.Hosts, o.Spec.Gateways = []string{host}, s.gatewaysOf(service)
	o.Spec.Http = []*networking.HTTPRoute{{
		Name:  m.text(),
		Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: host, Port: &networking.PortSelector{Number: servicePort}}}},
	}}
	return upsert(kinds.VirtualService, o)
}

// Endpoint is an EndpointSlice with one endpoint besides the pods of a service. The endpoint's address is the mark.
func (s Shape) Endpoint(service int, m Marker) source.Change {
	o := slice(s.Namespace(service), ServiceName(service), "perf")
	o.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{m.address()}, Conditions: ready()}}
	return upsert(kinds.EndpointSlice, o)
}

// gusts is from which address on gusts have theirs, in 10.0.0.0/8 behind all others.
const gusts = 254 << 16

// gustSlices is how many EndpointSlices a storm is of, at least: of fewer, those that were not read yet would take in most of it.
const gustSlices = 1000

// Gusts are changes from the nth on, each of another EndpointSlice, of one endpoint besides the pods, each time another one. They have no
// marks. They are of every so manieth service but the first: all of one namespace where that is how many namespaces there are.
func (s Shape) Gusts(from, number, every int) (changes []source.Change) {
	services := (s.Services-2)/every + 1
	slices := services * ((gustSlices-1)/services + 1)
	for n := from; n < from+number; n++ {
		service := 1 + n%services*every
		o := slice(s.Namespace(service), ServiceName(service), fmt.Sprint("gust-", n%slices/services))
		o.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{address(gusts + n%(1<<16))}, Conditions: ready()}}
		changes = append(changes, upsert(kinds.EndpointSlice, o))
	}
	return changes
}

// NewService is a service that is not of the mesh, with one endpoint: its name is the mark, and so is the endpoint's address. It is
// in the namespace of service 0.
func (s Shape) NewService(m Marker) []source.Change {
	o := s.service(MaxServices + int(m))
	o.Namespace, o.Name, o.Spec.Selector = s.Namespace(0), m.text(), nil
	endpoints := slice(o.Namespace, o.Name, "perf")
	endpoints.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{m.address()}, Conditions: ready()}}
	return []source.Change{upsert(kinds.EndpointSlice, endpoints), upsert(kinds.Service, o)}
}

// Who made an EndpointSlice: this package, or a cluster's own controller of the pods that a Service selects.
const (
	Manager    = "lateen-perf"
	Controller = "endpointslice-controller.k8s.io"
)

// slice is an empty EndpointSlice of a service.
func slice(namespace, service, suffix string) *discoveryv1.EndpointSlice {
	name, port, protocol := "http", int32(targetPort), corev1.ProtocolTCP
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service + "-" + suffix, Labels: map[string]string{
			discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: Manager,
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
}

func ready() discoveryv1.EndpointConditions {
	yes := true
	return discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes}
}

// isolation is the Sidecar of "namespace isolation".
func isolation() *networkingv1.Sidecar { return sidecar(Root, "./*", Root+"/*") }

// sidecar is the Sidecar of a namespace, which shows it these hosts alone.
func sidecar(namespace string, hosts ...string) *networkingv1.Sidecar {
	o := &networkingv1.Sidecar{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	o.Spec.Egress = []*networking.IstioEgressListener{{Hosts: hosts}}
	return o
}
