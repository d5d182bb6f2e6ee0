package manifests

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"
)

// document is one object in one of its variants. Few names and hosts make everything contested.
type document struct {
	kind, namespace, name string
	spec                  int // of specs
	age                   int // 0 states no creation time
}

func (d document) key() string { return d.kind + " " + d.namespace + "/" + d.name }

// specs are what objects of a kind may say. What reads well and cannot be meant is among it.
var specs = withAttached(map[string][]string{
	"Service": {
		"spec: {selector: {app: a}, ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp, port: 9000, " +
			"targetPort: 7000}]}",
		"spec: {selector: {app: a}, ports: [{name: tcp, port: 80, targetPort: 8080}, {name: tls, port: 9000, " +
			"targetPort: 8080}]}",
		"spec: {selector: {app: b}, ports: [{name: http, port: 70000}, {name: tcp, port: 9000, targetPort: 7000}]}",
		"spec: {clusterIP: None, selector: {app: a}, ports: [{name: http-main, port: 9000}]}",
	},
	"ServiceEntry": {
		"spec: {hosts: [contested.test], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], " +
			"endpoints: [{address: 127.9.0.1}]}",
		"spec: {hosts: [contested.test, a.default], resolution: DNS, ports: [{number: 9000, name: tcp, protocol: " +
			"TCP}], endpoints: [{address: localhost}]}",
		"spec: {hosts: [a.default.svc.cluster.local], resolution: STATIC, ports: [{number: 80, name: http, protocol: " +
			"HTTP}], workloadSelector: {labels: {app: a}}}",
		"spec: {hosts: [contested.test, \"no host\"], resolution: STATIC, ports: [{number: 80, name: http, protocol: " +
			"HTTP}], endpoints: [{address: nowhere}, {address: 127.9.0.2}]}",
	},
	"VirtualService": {
		"spec: {hosts: [contested.test], http: [{route: [{destination: {host: a.default.svc.cluster.local, subset: " +
			"v1}}]}]}",
		"spec: {hosts: [contested.test, a.default.svc.cluster.local], http: [{match: [{uri: {prefix: /x}}], " +
			"redirect: {redirectCode: 999}}, {directResponse: {status: 418}}]}",
		"spec: {hosts: [\"*.test\"], exportTo: [.], http: [{route: [{destination: {host: contested.test, port: " +
			"{number: 80}}}]}]}",
		"spec: {hosts: [contested.test], gateways: [istio-system/a, mesh], http: [{route: [{destination: {host: " +
			"missing}}]}]}",
		"spec: {hosts: [a.default.svc.cluster.local, a.default], tcp: [{match: [{port: 9000}], route: [{destination: " +
			"{host: a.shop.svc.cluster.local}}]}]}",
	},
	"DestinationRule": {
		"spec: {host: a.default.svc.cluster.local, subsets: [{name: v1, labels: {version: v1}}, {name: \"!\"}]}",
		"spec: {host: a.default.svc.cluster.local, trafficPolicy: {loadBalancer: {simple: RANDOM}}, subsets: [{name: " +
			"v2, labels: {version: v2}}]}",
		"spec: {host: \"*.test\", trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}",
		"spec: {host: a.default.svc.cluster.local, exportTo: [.], trafficPolicy: {connectionPool: {http: " +
			"{maxRetries: -1}}}, subsets: [{name: v1, labels: {version: v2}}]}",
	},
	"Sidecar": {
		"spec: {egress: [{hosts: [./*]}]}",
		"spec: {egress: [{hosts: [\"*/*\"]}], outboundTrafficPolicy: {mode: REGISTRY_ONLY}}",
		"spec: {workloadSelector: {labels: {app: a}}, ingress: [{port: {number: 8080, protocol: HTTP, name: http}}, " +
			"{port: {number: 8080, protocol: TCP, name: tcp}}]}",
		"spec: {egress: [{hosts: [nothing]}]}",
	},
	"Gateway": {
		"spec: {selector: {istio: ingress}, servers: [{port: {number: 8080, name: http, protocol: HTTP}, hosts: " +
			"[contested.test]}]}",
		"spec: {selector: {istio: ingress}, servers: [{port: {number: 8080, name: http, protocol: HTTP}, hosts: " +
			"[\"*\"], tls: {httpsRedirect: true}}]}",
		"spec: {selector: {istio: ingress}, servers: [{port: {number: 8080, name: https, protocol: HTTPS}, hosts: " +
			"[contested.test], tls: {mode: SIMPLE, credentialName: c}}, {port: {number: 8081, name: http, protocol: " +
			"HTTP}, hosts: [\"*\"]}]}",
	},
	"HTTPRoute": {
		"spec: {parentRefs: [{group: \"\", kind: Service, name: a}], rules: [{matches: [{path: {value: /x}}], " +
			"backendRefs: [{name: a, port: 80}]}, {backendRefs: [{name: b, port: 80}, {name: missing, port: 1}]}]}",
		"spec: {parentRefs: [{group: \"\", kind: Service, name: a, namespace: default, port: 80}], rules: " +
			"[{filters: [{type: RequestRedirect, requestRedirect: {statusCode: 999}}]}, {matches: [{method: PUT}]}]}",
		"spec: {parentRefs: [{name: none}, {group: \"\", kind: Service, name: b}], hostnames: [\"no host\"]}",
	},
	"TCPRoute": {
		"spec: {parentRefs: [{group: \"\", kind: Service, name: a, port: 9000}], rules: [{backendRefs: " +
			"[{name: b, port: 9000}]}]}",
		"spec: {parentRefs: [{group: \"\", kind: Service, name: a, namespace: default}], rules: [{backendRefs: " +
			"[{name: a, port: 9000, weight: 0}]}]}",
	},
	"BackendTLSPolicy": {
		"spec: {targetRefs: [{group: \"\", kind: Service, name: a}], validation: {hostname: contested.test, " +
			"wellKnownCACertificates: System}}",
		"spec: {targetRefs: [{group: \"\", kind: Service, name: a, sectionName: http}], validation: {hostname: " +
			"other.test, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: none}]}}",
		"spec: {targetRefs: [{group: \"\", kind: Service, name: b}], validation: {hostname: \"*\"}}",
	},
	"Pod": {
		"status: {podIP: 127.32.1.1, phase: Running}\nspec: {containers: [{name: c, ports: [{containerPort: 8080}]}]}",
		"status: {podIP: 127.32.1.2, phase: Running}\nspec: {containers: [{name: c}]}",
	},
	"EndpointSlice": {
		"addressType: IPv4\nendpoints: [{addresses: [127.32.1.1], conditions: {ready: true}, targetRef: {kind: Pod, " +
			"name: a}}]\nports: [{name: http, port: 8080}]",
		"addressType: IPv4\nendpoints: [{addresses: [127.32.1.2], conditions: {ready: true}, targetRef: {kind: Pod, " +
			"name: b}}, {addresses: [127.32.1.3]}]\nports: [{name: tcp, port: 7000}]",
	},
	"ConfigMap": {
		"data: {mesh: \"outboundTrafficPolicy: {mode: REGISTRY_ONLY}\"}", "data: {mesh: \"rootNamespace: shop\"}",
		"data: {mesh: \"connectTimeout: 3s\\ndefaultDestinationRuleExportTo: [.]\"}", "data: {mesh: \"{\"}",
	},
})

var apiVersions = map[string]string{
	"Service":       "v1",
	"Pod":           "v1",
	"ConfigMap":     "v1",
	"EndpointSlice": "discovery.k8s.io/v1",

	"KubernetesGateway": gatewayAPI, "ListenerSet": gatewayAPI, "ReferenceGrant": gatewayAPI,
	"HTTPRoute": gatewayAPI, "GRPCRoute": gatewayAPI, "TLSRoute": gatewayAPI, "TCPRoute": gatewayAPI,
	"BackendTLSPolicy": gatewayAPI, "GatewayClass": gatewayAPI,
}

var labels = map[string]string{
	"Pod":           ", labels: {app: a, version: v1}",
	"EndpointSlice": ", labels: {kubernetes.io/service-name: a}",
}

// String is the manifest.
func (d document) String() string {
	version := apiVersions[d.kind]
	if version == "" {
		version = "networking.istio.io/v1"
	}
	age := ""
	if d.age > 0 {
		age = fmt.Sprintf(", creationTimestamp: \"2024-01-0%dT00:00:00Z\"", d.age)
	}
	namespace := ""
	if d.namespace != "" {
		namespace = ", namespace: " + d.namespace
	}
	return fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {name: %s%s%s%s}\n%s\n", version,
		d.manifestKind(), d.name, namespace, age, labels[d.kind], specs[d.kind][d.spec])
}

// unreadable is the manifest with a mistake that no conversion comes to see.
func (d document) unreadable(rt *rapid.T) string {
	return rapid.SampledFrom([]string{
		d.String() + "surprise: true\n",
		strings.Replace(d.String(), "kind: "+d.manifestKind(), "kind: "+d.manifestKind()+"x", 1),
		strings.Replace(d.String(), "metadata: {", "metadata: {{", 1),
		strings.Replace(d.String(), "name: "+d.name, "name: No_Name", 1),
	}).Draw(rt, "mistake")
}

// drawDocument draws one of about seventy objects.
func drawDocument(rt *rapid.T) document {
	d := document{
		kind: rapid.SampledFrom([]string{
			"Service",
			"ServiceEntry",
			"VirtualService",
			"VirtualService",
			"DestinationRule",
			"Sidecar",
			"Gateway",
			"HTTPRoute",
			"TCPRoute",
			"TLSRoute",
			"GRPCRoute",
			"GatewayClass",
			"KubernetesGateway",
			"ListenerSet",
			"ReferenceGrant",
			"BackendTLSPolicy",
			"Pod",
			"EndpointSlice",
			"ConfigMap",
		}).Draw(rt, "kind"),
		name:      rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "name"),
		namespace: rapid.SampledFrom([]string{"default", "default", "shop"}).Draw(rt, "namespace"),
		age:       rapid.IntRange(0, 2).Draw(rt, "age"),
	}
	switch d.kind {
	case "ConfigMap":
		d.namespace, d.name = "istio-system", "istio"
	case "Gateway", "KubernetesGateway":
		d.namespace = "istio-system"
	case "GatewayClass": // cluster-scoped, and named by KubernetesGateways
		d.namespace, d.name = "", rapid.SampledFrom([]string{"istio", "other"}).Draw(rt, "class")
	}
	d.spec = rapid.IntRange(0, len(specs[d.kind])-1).Draw(rt, "spec")
	return d
}
