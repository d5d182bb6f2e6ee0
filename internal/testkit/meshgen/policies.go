package meshgen

import (
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VirtualService is the one of a service, nil for kinds that have none.
func VirtualService(i int) *networkingv1.VirtualService {
	switch KindOf(i) {
	case Plain, Multi:
		return Routes(i)
	case Matched:
		v := Routes(i)
		to := v.Spec.Http[0].Route
		v.Spec.Http = append([]*networking.HTTPRoute{{
			Match: []*networking.HTTPMatchRequest{
				{SourceLabels: map[string]string{"app": Name(i - int(Matched)*Namespaces)}},
			}, Route: to[:1],
			Timeout: durationpb.New(7e9),
		}}, v.Spec.Http...)
		return v
	case Exposed:
		v := Routes(i)
		v.Spec.Hosts = []string{Name(i) + ".example.org"}
		v.Spec.Gateways = []string{Root + "/" + Gateway().Name}
		return v
	case ContestTCP:
		v := &networkingv1.VirtualService{ObjectMeta: meta(i)}
		v.Spec.Hosts = []string{Host(i)}
		v.Spec.Tcp = []*networking.TCPRoute{
			{Route: []*networking.RouteDestination{{Destination: &networking.Destination{Host: Host(i)}}}},
		}
		return v
	}
	return nil
}

// Routes is a VirtualService that sends the requests for a service of any kind to itself, and to
// subsets where it has some.
func Routes(i int) *networkingv1.VirtualService {
	v := &networkingv1.VirtualService{ObjectMeta: meta(i)}
	v.Spec.Hosts = []string{Host(i)}
	to := []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: Host(i)}}}
	if r := DestinationRule(i); r != nil && len(r.Spec.Subsets) > 0 {
		to = []*networking.HTTPRouteDestination{
			{Destination: &networking.Destination{Host: Host(i), Subset: "v1"}, Weight: 90},
			{Destination: &networking.Destination{Host: Host(i), Subset: "v2"}, Weight: 10},
		}
	}
	v.Spec.Http = []*networking.HTTPRoute{{Name: "default", Route: to}}
	return v
}

// DestinationRule is the one of a service, nil for kinds that have none.
func DestinationRule(i int) *networkingv1.DestinationRule {
	r := &networkingv1.DestinationRule{ObjectMeta: meta(i)}
	r.Spec.Host = Host(i)
	switch KindOf(i) {
	case Plain, Private:
		r.Spec.Subsets = []*networking.Subset{
			{Name: "v1", Labels: map[string]string{"version": "v1"}},
			{Name: "v2", Labels: map[string]string{"version": "v2"}},
		}
	case Policed:
		r.Spec.TrafficPolicy = &networking.TrafficPolicy{ConnectionPool: &networking.ConnectionPoolSettings{
			Http: &networking.ConnectionPoolSettings_HTTPSettings{Http2MaxRequests: 1000},
		}}
	default:
		return nil
	}
	return r
}

// Namespaces from these on have a Sidecar: Wide lets in the own namespace, Narrow three services by
// name, and Selected is Narrow for the pods of version v2 alone.
const (
	Wide     = 30
	Narrow   = 40
	Selected = 45
)

// Sidecar is the one of a namespace, nil if it has none.
func Sidecar(n int) *networkingv1.Sidecar {
	if n < Wide {
		return nil
	}
	s := &networkingv1.Sidecar{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace(n), Name: "default"}}
	hosts := []string{"./*", Root + "/*"}
	if n >= Narrow {
		hosts = nil
		for _, i := range []int{Number(n, Plain), Number(0, Plain), Number(1, ContestTCP)} {
			hosts = append(hosts, Namespace(i)+"/"+Host(i))
		}
	}
	if n >= Selected {
		s.Spec.WorkloadSelector = &networking.WorkloadSelector{Labels: map[string]string{"version": "v2"}}
	}
	s.Spec.Egress = []*networking.IstioEgressListener{{Hosts: hosts}}
	return s
}

// Gateway is the mesh's one gateway.
func Gateway() *networkingv1.Gateway {
	g := &networkingv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: Root, Name: "ingress"}}
	g.Spec.Selector = map[string]string{"istio": "ingress"}
	g.Spec.Servers = []*networking.Server{{
		Port:  &networking.Port{Number: 80, Name: "http", Protocol: "HTTP"},
		Hosts: []string{"*"},
	}}
	return g
}
