package manifests

import "strings"

const gatewayAPI = "gateway.networking.k8s.io/v1"

// manifestKind is the kind as manifests have it: two groups have a Gateway.
func (d document) manifestKind() string { return strings.TrimPrefix(d.kind, "Kubernetes") }

// withAttached adds what attaches to Gateways of the Gateway API. A Gateway with the name a is for
// the gateway of proxies.
func withAttached(specs map[string][]string) map[string][]string {
	const (
		all     = "allowedRoutes: {namespaces: {from: All}}"
		gateway = "parentRefs: [{name: a, namespace: istio-system}]"
		set     = "parentRefs: [{kind: ListenerSet, name: a, namespace: default}]"
	)
	for kind, more := range map[string][]string{
		"GatewayClass": {
			"spec: {controllerName: istio.io/gateway-controller}",
			"spec: {controllerName: example.test/gateway-controller}",
		},
		"KubernetesGateway": {
			"spec: {gatewayClassName: istio, allowedListeners: {namespaces: {from: All}}, listeners: [" +
				"{name: http, port: 8090, protocol: HTTP, " + all + "}, " +
				"{name: tls, port: 8091, protocol: TLS, tls: {mode: Passthrough}, " + all + "}, " +
				"{name: tcp, port: 8092, protocol: TCP, " + all + "}]}",
			"spec: {gatewayClassName: istio, listeners: [{name: http, port: 8090, protocol: HTTP, hostname: " +
				"contested.test, " + all + "}, {name: tcp, port: 8090, protocol: TCP, " + all + "}]}",
			"spec: {gatewayClassName: other, listeners: [{name: http, port: 8090, protocol: HTTP, " + all + "}]}",
		},
		"ListenerSet": {
			"spec: {parentRef: {name: a, namespace: istio-system}, listeners: [{name: http, port: 8090, protocol: " +
				"HTTP, hostname: contested.test, " + all + "}, {name: b, port: 8093, protocol: HTTP, " + all + "}]}",
			"spec: {parentRef: {name: a, namespace: istio-system}, listeners: [{name: tcp, port: 8092, protocol: " +
				"TCP, " + all + "}, {name: https, port: 8094, protocol: HTTPS, tls: {certificateRefs: [{name: c}]}}]}",
		},
		"HTTPRoute": {
			"spec: {" + gateway + ", hostnames: [contested.test], rules: [{backendRefs: [{name: a, port: 80}]}]}",
			"spec: {" + set + ", rules: [{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: b, " +
				"namespace: shop, port: 80}}}], backendRefs: [{name: a, namespace: shop, port: 80}]}]}",
		},
		"GRPCRoute": {
			"spec: {" + gateway + ", rules: [{matches: [{method: {service: a, method: b}}], backendRefs: [{name: a, " +
				"port: 80}]}]}",
			"spec: {parentRefs: [{group: \"\", kind: Service, name: a}], rules: [{matches: [{method: {type: " +
				"RegularExpression, service: \"[\"}}], backendRefs: [{name: b, port: 80}]}]}",
		},
		"TLSRoute": {
			"spec: {" + gateway + ", hostnames: [contested.test], rules: [{backendRefs: [{name: a, port: 9000}]}]}",
			"spec: {parentRefs: [{group: \"\", kind: Service, name: a, port: 9000}], hostnames: [other.test], rules: " +
				"[{backendRefs: [{name: b, port: 9000}]}]}",
		},
		"TCPRoute": {
			"spec: {" + gateway + ", rules: [{backendRefs: [{name: a, port: 9000}, {name: b, namespace: shop, " +
				"port: 9000}]}]}",
		},
		"ReferenceGrant": {
			"spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}, {group: " +
				"gateway.networking.k8s.io, kind: TCPRoute, namespace: default}], to: [{group: \"\", kind: Service}]}",
			"spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: default}], to: [{group: " +
				"\"\", kind: Service, name: b}]}",
			"spec: {from: [{group: \"\", kind: HTTPRoute, namespace: default}], to: []}",
		},
	} {
		specs[kind] = append(specs[kind], more...)
	}
	return specs
}
