package meshgen

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Kind is what a service is like.
type Kind int

// The kinds; those below Multi are HTTP on port 80 and differ in who may see them, and in their
// routes and policies.
const (
	Plain       Kind = 0 // with routes and subsets
	Matched     Kind = 1 // with routes that only some workloads have (sourceLabels)
	Private     Kind = 2 // exportTo ".", with subsets
	Shared      Kind = 3 // exportTo the next two namespaces
	Policed     Kind = 4 // with a traffic policy
	Hidden      Kind = 5 // exportTo "~"
	Exposed     Kind = 6 // with routes of the gateway
	Simple      Kind = 7 // nothing but the service; 8 and 9 too
	Multi       Kind = 10
	Unnamed     Kind = 11
	PrivateTCP  Kind = 12
	ContestTCP  Kind = 13 // all on port 3306
	OwnPortTCP  Kind = 14
	HeadlessTCP Kind = 15
	Headless    Kind = 16
	LookedUp    Kind = 17 // ServiceEntry, as are those below
	Listed      Kind = 18
	Selecting   Kind = 19
)

// KindOf is the kind of a service.
func KindOf(i int) Kind { return Kind(i / Namespaces % Kinds) }

// Host is the name by which a service is called.
func Host(i int) string {
	if KindOf(i) >= LookedUp {
		return Name(i) + ".example.com"
	}
	return Name(i) + "." + Namespace(i) + ".svc.cluster.local"
}

// Service is a Kubernetes Service.
func Service(i int) *corev1.Service {
	s := &corev1.Service{ObjectMeta: meta(i)}
	s.Spec.Selector = map[string]string{"app": Name(i)}
	s.Spec.ClusterIP = address(10, i)
	if k := KindOf(i); k == Headless || k == HeadlessTCP {
		s.Spec.ClusterIP = corev1.ClusterIPNone
	}
	if to := exportTo(i); to != "" {
		s.Annotations = map[string]string{"networking.istio.io/exportTo": to}
	}
	for _, p := range portsOf(i) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
			Name:       p.name,
			Port:       p.number,
			TargetPort: intstr.FromInt32(p.target()),
		})
	}
	return s
}

func exportTo(i int) string {
	switch KindOf(i) {
	case Private, PrivateTCP:
		return "."
	case Shared:
		return Namespace(i+1) + "," + Namespace(i+2)
	case Hidden:
		return "~"
	case Matched:
		return "*"
	}
	return ""
}

type port struct {
	name   string
	number int32
}

// target is the port on which the pods listen.
func (p port) target() int32 { return p.number%20000 + 20000 }

func portsOf(i int) []port {
	switch KindOf(i) {
	case Multi:
		return []port{{"http", 80}, {"grpc", 8080}}
	case Unnamed:
		return []port{{"", 9000}}
	case PrivateTCP, ContestTCP:
		return []port{{"tcp", 3306}}
	case OwnPortTCP:
		return []port{{"tcp", 30000 + int32(i)}}
	case HeadlessTCP:
		return []port{{"tcp", 9042}}
	case Headless:
		return []port{{"http", 8081}}
	}
	return []port{{"http", 80}}
}

// Pod is one of the pods of a service. Pod 0 is of version v1, pod 1 of v2.
func Pod(i, p int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta(i)}
	pod.Name = fmt.Sprintf("%s-%d", Name(i), p)
	pod.Labels = map[string]string{"app": Name(i), "version": fmt.Sprintf("v%d", p+1), "tier": "back"}
	pod.Status.PodIP = address(127, Pods*i+p+256)
	return pod
}

// Slice is the EndpointSlice of a service, with all its pods.
func Slice(i int) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: meta(i), AddressType: discoveryv1.AddressTypeIPv4}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: Name(i)}
	for _, p := range portsOf(i) {
		number := p.target()
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p.name, Port: &number})
	}
	for p := range Pods {
		s.Endpoints = append(s.Endpoints, endpoint(i, p))
	}
	return s
}

func endpoint(i, p int) discoveryv1.Endpoint {
	pod := Pod(i, p)
	return discoveryv1.Endpoint{
		Addresses: []string{pod.Status.PodIP},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name},
	}
}

// address is the nth address of a /8.
func address(first byte, n int) string {
	return fmt.Sprintf("%d.%d.%d.%d", first, byte(n>>16), byte(n>>8), byte(n))
}

// ServiceEntry is one of the kinds from LookedUp on.
func ServiceEntry(i int) *networkingv1.ServiceEntry {
	e := &networkingv1.ServiceEntry{ObjectMeta: meta(i)}
	e.Spec.Hosts = []string{Host(i)}
	e.Spec.Ports = []*networking.ServicePort{{Name: "http", Number: 80, Protocol: "HTTP"}}
	e.Spec.Location = networking.ServiceEntry_MESH_EXTERNAL
	switch KindOf(i) {
	case LookedUp:
		e.Spec.Resolution = networking.ServiceEntry_DNS
		if i < Block {
			e.Spec.Ports = append(e.Spec.Ports, &networking.ServicePort{Name: "tls", Number: 443, Protocol: "TLS"})
		}
	case Listed:
		e.Spec.Resolution = networking.ServiceEntry_STATIC
		e.Spec.ExportTo = []string{".", Namespace(i + 1)}
		e.Spec.Endpoints = []*networking.WorkloadEntry{{Address: address(127, 1<<20+i)}}
	default:
		e.Spec.Resolution = networking.ServiceEntry_STATIC
		e.Spec.Location = networking.ServiceEntry_MESH_INTERNAL
		e.Spec.WorkloadSelector = &networking.WorkloadSelector{
			Labels: map[string]string{"app": Name(i - int(Selecting-Simple)*Namespaces)},
		}
	}
	return e
}

func gatewayPod() *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Root, Name: "ingress", Labels: map[string]string{"istio": "ingress"}},
	}
	p.Status.PodIP = address(127, 9)
	return p
}
