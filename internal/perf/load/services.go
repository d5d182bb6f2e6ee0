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

// ServiceName returns the name of a service and of the objects around it.
func ServiceName(service int) string { return fmt.Sprintf("svc-%05d", service) }

// Host returns the host name of a service.
func (s Shape) Host(service int) string {
	return ServiceName(service) + "." + s.Namespace(service) + ".svc.cluster.local"
}

// Cluster returns the name of the Envoy cluster of a service.
func (s Shape) Cluster(service int) string { return clusterOf(s.Host(service)) }

func clusterOf(host string) string { return fmt.Sprintf("outbound|%d||%s", servicePort, host) }

func (s Shape) service(i int) *corev1.Service {
	o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace(i), Name: ServiceName(i)}}
	o.Spec.Selector = map[string]string{"app": ServiceName(i)}
	o.Spec.ClusterIP = podAddress(200<<16 + i)
	o.Spec.Ports = []corev1.ServicePort{
		{Name: "http", Port: servicePort, TargetPort: intstr.FromInt32(targetPort), Protocol: corev1.ProtocolTCP},
	}
	return o
}

// podAddress returns the nth address of 10.0.0.0/8.
func podAddress(n int) string { return fmt.Sprintf("10.%d.%d.%d", byte(n>>16), byte(n>>8), byte(n)) }

// Route returns the VirtualService of a service, with a marker.
func (s Shape) Route(service int, m Marker) source.Change {
	host := s.Host(service)
	o := &networkingv1.VirtualService{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace(service), Name: ServiceName(service)},
	}
	o.Spec.Hosts, o.Spec.Gateways = []string{host}, s.gatewaysOf(service)
	o.Spec.Http = []*networking.HTTPRoute{{
		Name: m.text(),
		Route: []*networking.HTTPRouteDestination{
			{Destination: &networking.Destination{Host: host, Port: &networking.PortSelector{Number: servicePort}}},
		},
	}}
	return upsert(kinds.VirtualService, o)
}

// Endpoint returns an EndpointSlice with one endpoint beside the pods of a service. Its address
// contains the marker.
func (s Shape) Endpoint(service int, m Marker) source.Change {
	o := slice(s.Namespace(service), ServiceName(service), "perf")
	o.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{m.address()}, Conditions: ready()}}
	return upsert(kinds.EndpointSlice, o)
}

// stormAddresses is the offset in 10.0.0.0/8 of the addresses that storms use, above all others.
const stormAddresses = 254 << 16

// minStormSlices is how many EndpointSlices a storm changes, at least. With fewer, the queue of
// unread changes would merge most of the storm.
const minStormSlices = 1000

// StormChanges returns changes of a storm from the nth on. Each changes another EndpointSlice with
// one endpoint beside the pods, to a new address without a marker. It uses every nth service but
// the first: those of one namespace, if every is the number of namespaces.
func (s Shape) StormChanges(from, number, every int) (changes []source.Change) {
	services := (s.Services-2)/every + 1
	slices := services * ((minStormSlices-1)/services + 1)
	for n := from; n < from+number; n++ {
		service := 1 + n%services*every
		o := slice(s.Namespace(service), ServiceName(service), fmt.Sprint("gust-", n%slices/services))
		o.Endpoints = []discoveryv1.Endpoint{
			{Addresses: []string{podAddress(stormAddresses + n%(1<<16))}, Conditions: ready()},
		}
		changes = append(changes, upsert(kinds.EndpointSlice, o))
	}
	return changes
}

// NewService returns a new service with one endpoint, in the namespace of service 0. Its name and
// the endpoint's address contain the marker.
func (s Shape) NewService(m Marker) []source.Change {
	o := s.service(MaxServices + int(m))
	o.Namespace, o.Name, o.Spec.Selector = s.Namespace(0), m.text(), nil
	endpoints := slice(o.Namespace, o.Name, "perf")
	endpoints.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{m.address()}, Conditions: ready()}}
	return []source.Change{upsert(kinds.EndpointSlice, endpoints), upsert(kinds.Service, o)}
}

// The manager of an EndpointSlice: this package, or the cluster's controller for selected pods.
const (
	Manager    = "lateen-perf"
	Controller = "endpointslice-controller.k8s.io"
)

// slice returns an empty EndpointSlice of a service.
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

// isolation returns the Sidecar for namespace isolation.
func isolation() *networkingv1.Sidecar { return sidecar(Root, "./*", Root+"/*") }

// sidecar returns the Sidecar of a namespace, which limits it to these hosts.
func sidecar(namespace string, hosts ...string) *networkingv1.Sidecar {
	o := &networkingv1.Sidecar{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	o.Spec.Egress = []*networking.IstioEgressListener{{Hosts: hosts}}
	return o
}
