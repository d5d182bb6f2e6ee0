package meshgen

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Attached is how many ListenerSets and HTTPRoutes GatewayAPI has.
const Attached = 1000

// Ports of the Gateway of the Gateway API.
const (
	routesPort = 8080 // all HTTPRoutes and the GRPCRoute
	setsPort   = 8081 // the listeners of ListenerSets
	sparePort  = 8082 // the listener that changes
	tlsPort    = 8443
	tcpPort    = 9001
)

// GatewayAPI is what Mesh leaves out: a Gateway on the mesh's gateway, Attached ListenerSets and
// HTTPRoutes, and one object of each other kind. The routes lead to a service of the mesh, and the
// first of them also to one of the next namespace, by a grant.
func GatewayAPI(service int) []source.Change {
	all := []source.Change{
		Upsert(ingressService()), Upsert(KubernetesGateway("spare.test")), Upsert(ReferenceGrant(service, "")),
		Upsert(BackendTLSPolicy(service, "backend.test")), Upsert(GRPCRoute(service, "method")),
		Upsert(TLSRoute(service, 1)), Upsert(TCPRoute(service, 1)),
	}
	for i := range Attached {
		all = append(all, Upsert(ListenerSet(i, SetHost(i))), Upsert(HTTPRoute(service, i, "/")))
	}
	return all
}

// ingressService leads to the mesh's gateway.
func ingressService() *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: Root, Name: "ingress"}}
	s.Spec.Selector = map[string]string{"istio": "ingress"}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: routesPort}}
	return s
}

// KubernetesGateway has a listener for each kind of routes, and one for a host.
func KubernetesGateway(host string) *gatewayv1.Gateway {
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: Root, Name: "edge"}}
	g.Spec.GatewayClassName = "istio"
	g.Spec.Addresses = []gatewayv1.GatewaySpecAddress{{
		Type: pointer(gatewayv1.HostnameAddressType), Value: "ingress." + Root + ".svc.cluster.local",
	}}
	g.Spec.AllowedListeners = &gatewayv1.AllowedListeners{
		Namespaces: &gatewayv1.ListenerNamespaces{From: pointer(gatewayv1.NamespacesFromAll)},
	}
	g.Spec.Listeners = []gatewayv1.Listener{
		listener("http", routesPort, gatewayv1.HTTPProtocolType),
		listener("spare", sparePort, gatewayv1.HTTPProtocolType),
		listener("tls", tlsPort, gatewayv1.TLSProtocolType), listener("tcp", tcpPort, gatewayv1.TCPProtocolType),
	}
	g.Spec.Listeners[1].Hostname = pointer(gatewayv1.Hostname(host))
	g.Spec.Listeners[2].TLS = &gatewayv1.ListenerTLSConfig{Mode: pointer(gatewayv1.TLSModePassthrough)}
	return g
}

// listener is open for routes of all namespaces.
func listener(name string, port int32, protocol gatewayv1.ProtocolType) gatewayv1.Listener {
	return gatewayv1.Listener{
		Name: gatewayv1.SectionName(name), Port: port, Protocol: protocol,
		AllowedRoutes: &gatewayv1.AllowedRoutes{
			Namespaces: &gatewayv1.RouteNamespaces{From: pointer(gatewayv1.NamespacesFromAll)},
		},
	}
}

// SetHost is the host of a ListenerSet's listener.
func SetHost(i int) string { return fmt.Sprintf("set-%04d.test", i) }

// ListenerSet has a listener for a host.
func ListenerSet(i int, host string) *gatewayv1.ListenerSet {
	s := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: Root, Name: fmt.Sprintf("set-%04d", i)}}
	s.Spec.ParentRef.Name = "edge"
	l := listener("http", setsPort, gatewayv1.HTTPProtocolType)
	l.Hostname = pointer(gatewayv1.Hostname(host))
	s.Spec.Listeners = []gatewayv1.ListenerEntry{gatewayv1.ListenerEntry(l)}
	return s
}

// attachedTo is a listener of the Gateway as a parent.
func attachedTo(section string) gatewayv1.CommonRouteSpec {
	return gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{
		Namespace: pointer(gatewayv1.Namespace(Root)), Name: "edge",
		SectionName: pointer(gatewayv1.SectionName(section)),
	}}}
}

// backend is the first port of a service, with a weight.
func backend(i int, weight int32) gatewayv1.BackendRef {
	ref := gatewayv1.BackendRef{Weight: &weight}
	ref.Name, ref.Namespace = gatewayv1.ObjectName(Name(i)), pointer(gatewayv1.Namespace(Namespace(i)))
	ref.Port = pointer(Service(i).Spec.Ports[0].Port)
	return ref
}

// HTTPRoute has a host of its own. The first one leads to the next namespace too.
func HTTPRoute(service, i int, prefix string) *gatewayv1.HTTPRoute {
	r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{
		Namespace: Namespace(service), Name: fmt.Sprintf("route-%04d", i),
	}}
	r.Spec.CommonRouteSpec = attachedTo("http")
	r.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(fmt.Sprintf("route-%04d.test", i))}
	rule := gatewayv1.HTTPRouteRule{
		Matches: []gatewayv1.HTTPRouteMatch{{
			Path: &gatewayv1.HTTPPathMatch{Type: pointer(gatewayv1.PathMatchPathPrefix), Value: &prefix},
		}},
		BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: backend(service, 1)}},
	}
	if i == 0 {
		rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: backend(service+1, 1)})
	}
	r.Spec.Rules = []gatewayv1.HTTPRouteRule{rule}
	return r
}

// GRPCRoute takes the calls of one method.
func GRPCRoute(service int, method string) *gatewayv1.GRPCRoute {
	r := &gatewayv1.GRPCRoute{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace(service), Name: "calls"}}
	r.Spec.CommonRouteSpec = attachedTo("http")
	r.Spec.Hostnames = []gatewayv1.Hostname{"calls.test"}
	r.Spec.Rules = []gatewayv1.GRPCRouteRule{{
		Matches:     []gatewayv1.GRPCRouteMatch{{Method: &gatewayv1.GRPCMethodMatch{Method: &method}}},
		BackendRefs: []gatewayv1.GRPCBackendRef{{BackendRef: backend(service, 1)}},
	}}
	return r
}

// TLSRoute shares connections among two services of its namespace.
func TLSRoute(service int, weight int32) *gatewayv1.TLSRoute {
	r := &gatewayv1.TLSRoute{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace(service), Name: "secure"}}
	r.Spec.CommonRouteSpec = attachedTo("tls")
	r.Spec.Hostnames = []gatewayv1.Hostname{"secure.test"}
	r.Spec.Rules = []gatewayv1.TLSRouteRule{{BackendRefs: shares(service, weight)}}
	return r
}

// TCPRoute shares connections as TLSRoute does.
func TCPRoute(service int, weight int32) *gatewayv1.TCPRoute {
	r := &gatewayv1.TCPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace(service), Name: "stream"}}
	r.Spec.CommonRouteSpec = attachedTo("tcp")
	r.Spec.Rules = []gatewayv1.TCPRouteRule{{BackendRefs: shares(service, weight)}}
	return r
}

// shares are two services of one namespace that are in meshes of every size.
func shares(service int, weight int32) []gatewayv1.BackendRef {
	return []gatewayv1.BackendRef{backend(service, weight), backend(service+Namespaces, 1)}
}

// BackendTLSPolicy is for the callers of a service.
func BackendTLSPolicy(service int, host string) *gatewayv1.BackendTLSPolicy {
	p := &gatewayv1.BackendTLSPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: Namespace(service), Name: Name(service),
	}}
	target := gatewayv1.LocalPolicyTargetReferenceWithSectionName{}
	target.Kind, target.Name = "Service", gatewayv1.ObjectName(Name(service))
	p.Spec.TargetRefs = []gatewayv1.LocalPolicyTargetReferenceWithSectionName{target}
	p.Spec.Validation.Hostname = gatewayv1.PreciseHostname(host)
	p.Spec.Validation.WellKnownCACertificates = pointer(gatewayv1.WellKnownCACertificatesSystem)
	return p
}

// ReferenceGrant lets the HTTPRoutes of a service's namespace name a Service of the next one; "" is
// any.
func ReferenceGrant(service int, name string) *gatewayv1.ReferenceGrant {
	g := &gatewayv1.ReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace(service + 1), Name: "routes"}}
	g.Spec.From = []gatewayv1.ReferenceGrantFrom{{
		Group: kinds.GatewayAPIGroup, Kind: "HTTPRoute", Namespace: gatewayv1.Namespace(Namespace(service)),
	}}
	to := gatewayv1.ReferenceGrantTo{Kind: "Service"}
	if name != "" {
		to.Name = pointer(gatewayv1.ObjectName(name))
	}
	g.Spec.To = []gatewayv1.ReferenceGrantTo{to}
	return g
}

func pointer[T any](v T) *T { return &v }
