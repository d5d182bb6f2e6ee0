package kube_test

// contents are what objects of a resource may hold, as merge patches. Some are mistakes.
var contents = map[string][]string{
	"namespaces": nil,
	"nodes": {
		`metadata: {labels: {topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: z1}}`,
		`metadata: {labels: {topology.kubernetes.io/region: r2, topology.kubernetes.io/zone: null}}`,
	},
	"services": {
		`spec: {ports: [{name: http, port: 80}]}`,
		`spec: {ports: [{name: http, port: 80, targetPort: web}, {name: db, port: 3306, appProtocol: tcp}], selector: {app: a}}`,
		`spec: {ports: [{name: http, port: 9080}], trafficDistribution: PreferClose}`,
		`{metadata: {annotations: {networking.istio.io/exportTo: "."}}, spec: {ports: [{name: tcp, port: 3306}]}}`,
		`{metadata: {annotations: {service.kubernetes.io/topology-mode: Auto}}, spec: {ports: [{name: http, port: 80}], externalIPs: [192.0.2.7]}}`,
		`{metadata: {annotations: {service.kubernetes.io/topology-aware-hints: auto}}, spec: {ports: [{name: http, port: 80}]}}`,
		`{metadata: {labels: {experimental.istio.io/disable-gateway-port-translation: "true"}, annotations: {alpha.istio.io/kubernetes-serviceaccounts: x}}, spec: {ports: [{name: http, port: 80}]}}`,
		`spec: {type: ExternalName, externalName: a.example.com, ports: [{name: http, port: 80}]}`,
	},
	"endpointslices": {
		`{metadata: {labels: {kubernetes.io/service-name: a}}, addressType: IPv4, endpoints: [{addresses: [10.0.0.1], hints: {forZones: [{name: z1}]}}], ports: [{name: http, port: 80}]}`,
		`{metadata: {labels: {kubernetes.io/service-name: b}}, addressType: IPv4, endpoints: [{addresses: [10.0.0.1], conditions: {ready: false}}, {addresses: [10.0.0.2]}], ports: [{name: http, port: 80}]}`,
		`{metadata: {labels: {kubernetes.io/service-name: a}}, addressType: IPv4, endpoints: [{addresses: [10.0.0.3], targetRef: {kind: Pod, name: a}}], ports: [{name: http, port: 80}, {name: db, port: 3306}]}`,
		`{metadata: {labels: {kubernetes.io/service-name: a}}, addressType: IPv4, endpoints: [{addresses: [10.0.0.1], hints: {forZones: [{name: z2}], forNodes: [{name: n1}]}}], ports: [{name: http, port: 80}]}`,
	},
	"pods": {
		`{metadata: {labels: {app: a}}, spec: {containers: [{name: web, image: web, ports: [{name: web, containerPort: 8080}]}]}}`,
		`{metadata: {labels: {app: b, version: v1}}, spec: {containers: [{name: web, image: web, ports: [{name: web, containerPort: 8080}]}]}}`,
		`metadata: {labels: {istio.io/draining: "true"}}`,
	},
	"secrets": {
		`{type: kubernetes.io/tls, stringData: {tls.crt: garbage, tls.key: garbage}}`,
		`{type: Opaque, stringData: {cert: garbage, key: ""}}`,
		`{type: Opaque, stringData: {cacert: other garbage}}`,
	},
	"configmaps": {
		`data: {mesh: "discoverySelectors: [{matchLabels: {LABEL: in}}, {matchLabels: ` +
			`{kubernetes.io/metadata.name: HOME}}]"}`,
		`data: {mesh: "discoverySelectors: [{matchLabels: {LABEL: in}}, {matchLabels: ` +
			`{kubernetes.io/metadata.name: HOME}}]"}`,
		`data: {mesh: "{discoverySelectors: [{matchLabels: {LABEL: in}}], rootNamespace: HOME, connectTimeout: 3s}"}`,
		`data: {mesh: "{rootNamespace: HOME, ingressControllerMode: STRICT, outboundTrafficPolicy: {mode: ` +
			`REGISTRY_ONLY}}"}`,
		`data: {mesh: "{"}`,
	},
	"ingressclasses": {
		`spec: {controller: istio.io/ingress-controller}`,
		`spec: {controller: example.com/another}`,
	},
	"ingresses": {
		`spec: {ingressClassName: a-HOME, defaultBackend: {service: {name: a, port: {name: http}}}}`,
		`spec: {rules: [{host: x.example.com, http: {paths: [{path: /x, pathType: Prefix, backend: {service: {name: b, port: {number: 80}}}}]}}]}`,
		`{metadata: {annotations: {kubernetes.io/ingress.class: istio}}, spec: {defaultBackend: {service: {name: a, port: {number: 80}}}}}`,
	},
	"gateways": {
		`spec: {selector: {istio: ingressgateway}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}`,
		`spec: {selector: {istio: ingressgateway}, servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: [x.example.com], tls: {mode: SIMPLE, credentialName: a}}]}`,
		`spec: {selector: {app: a}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}`,
	},
	"virtualservices": {
		`spec: {hosts: [a], gateways: [mesh], http: [{route: [{destination: {host: a}}]}]}`,
		`spec: {hosts: [x.example.com], gateways: [a], http: [{route: [{destination: {host: b, subset: v1}}], timeout: 3s}]}`,
		`spec: {hosts: [a, b], gateways: [mesh], http: [{match: [{uri: {prefix: /x}}], route: [{destination: {host: c}, weight: 1}, {destination: {host: b}, weight: 9}]}]}`,
		`spec: {hosts: [b], gateways: [mesh, a], http: [{match: [{uri: {regex: "["}}], route: [{destination: {host: b}}]}]}`,
	},
	"destinationrules": {
		`spec: {host: b, subsets: [{name: v1, labels: {version: v1}}], trafficPolicy: null}`,
		`spec: {host: a, subsets: null, trafficPolicy: {connectionPool: {tcp: {maxConnections: 7}}}}`,
		`spec: {host: a, subsets: null, trafficPolicy: {tls: {mode: SIMPLE, credentialName: a}}}`,
	},
	"workloadentries": {
		`spec: {address: 192.0.2.10, labels: {app: a}, ports: {http: 8080}}`,
		`spec: {address: 192.0.2.11, labels: {app: a}, weight: 3, serviceAccount: a, locality: r1/z1}`,
		`{metadata: {labels: {app: b}}, spec: {address: 192.0.2.12}}`,
		`{metadata: {annotations: {proxy.istio.io/health-checks-enabled: "true"}}, spec: {address: 192.0.2.13, labels: {app: a}}}`,
		`spec: {address: nowhere.example.com, labels: {app: a}}`,
	},
	"serviceentries": {
		`spec: {hosts: [x.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS, workloadSelector: null, endpoints: null}`,
		`spec: {hosts: [x.example.com, y.example.com], ports: [{number: 3306, name: db, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.0.0.9}], workloadSelector: null}`,
		`spec: {hosts: [y.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, workloadSelector: {labels: {app: a}}, endpoints: null}`,
	},
	"sidecars": {
		`spec: {egress: [{hosts: ["./*"]}], workloadSelector: null}`,
		`spec: {egress: [{hosts: ["*/*"]}], outboundTrafficPolicy: {mode: REGISTRY_ONLY}, workloadSelector: null}`,
		`spec: {egress: [{hosts: ["./*"]}], workloadSelector: {labels: {app: a}}}`,
	},
	"authorizationpolicies": {
		`spec: {rules: [{}], action: ALLOW, selector: null}`,
		`spec: {rules: [{from: [{source: {namespaces: [x]}}]}], selector: {matchLabels: {app: a}}}`,
	},
	"telemetries": {
		`spec: {accessLogging: [{providers: [{name: envoy}]}], selector: null}`,
		`spec: {accessLogging: [{disabled: true}], tracing: [{randomSamplingPercentage: 7}], selector: {matchLabels: {app: a}}}`,
	},
	"proxyconfigs": {
		`spec: {concurrency: 2, selector: null}`,
		`spec: {environmentVariables: {A: b}, image: {imageType: debug}, selector: {matchLabels: {app: a}}}`,
	},
	"peerauthentications": {
		`spec: {mtls: {mode: PERMISSIVE}, selector: null}`,
		`spec: {mtls: {mode: STRICT}, selector: {matchLabels: {app: a}}}`,
	},
	"requestauthentications": {
		`spec: {jwtRules: [{issuer: a, jwks: '{"keys":[{"kty":"oct","k":"AAAA"}]}'}], selector: null}`,
		`spec: {jwtRules: [{issuer: a, jwksUri: "https://a.test/keys"}], selector: {matchLabels: {app: a}}}`,
	},
}
