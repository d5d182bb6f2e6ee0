package dataplane

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lateen-mesh/lateen/internal/perf/traffic"
)

const (
	namespace = "perf"
	// gatewayPort is where the gateway takes HTTP, and gatewayTCPPort where it takes TCP.
	gatewayPort, gatewayTCPPort = 8080, 9000
	// gatewayHost is the host of the way in.
	gatewayHost = "server.test"
	// clientHost is the host of the way in to the client.
	clientHost = "client.test"
	// single ends the names of workloads whose proxies have one worker.
	single = "-single"
)

// manifests returns the mesh: a server, a client whose sidecar takes this program's requests, and a
// gateway.
func (o Options) manifests() string {
	parts := []string{
		o.meshConfig(),
		fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}", namespace),
		o.deployment("server", o.serve(), serverPorts()),
		o.gateway(), service("server", traffic.Protocols()), wayIn(), o.collector(),
		o.strict(),
	}
	parts = append(parts, o.client()...)
	if o.knobs && o.Protocol != traffic.TCP { // a port leads to one TCP service
		one := o
		one.Workers = 1
		parts = append(parts,
			one.deployment("server"+single, o.serve(), serverPorts()),
			one.deployment("client"+single, quoted("sleep", "1000000000"), ""),
			service("server"+single, []string{string(o.Protocol)}))
	}
	if o.Tracing { // sampling of the mesh configuration has no zero
		parts = append(parts, fmt.Sprintf(`apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: tracing, namespace: istio-system}
spec: {tracing: [{providers: [{name: %s}], randomSamplingPercentage: %v}]}`, spans, o.Sampling))
	}
	if o.fewMetrics {
		parts = append(parts, fewMetrics)
	}
	for i := range o.Policies {
		parts = append(parts, policy(i, o.Policies))
	}
	return strings.Join(parts, "\n---\n") + "\n"
}

// client is where requests come from. It serves HTTP as the server does if some lead to it.
func (o Options) client() []string {
	if !o.clientServes() {
		return []string{o.deployment("client", quoted("sleep", "1000000000"), "")}
	}
	served := []string{string(o.Protocol)}
	return []string{
		o.deployment("client", o.serve(), serverPorts()), service("client", served),
		fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: client, namespace: %s}
spec:
  hosts: [%s]
  gateways: [gateway]
  http: [{route: [{destination: {host: client, port: {number: %d}}}]}]`, namespace, clientHost, o.Protocol.Port()),
	}
}

// fewMetrics leaves REQUEST_COUNT, without the tags that say how a request ended beside its code,
// and of which identity and version both sides are.
const fewMetrics = `apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: metrics, namespace: istio-system}
spec:
  metrics:
  - overrides:
    - {match: {metric: ALL_METRICS}, disabled: true}
    - match: {metric: REQUEST_COUNT}
      disabled: false
      tagOverrides:
        response_flags: {operation: REMOVE}
        grpc_response_status: {operation: REMOVE}
        source_principal: {operation: REMOVE}
        source_version: {operation: REMOVE}
        destination_principal: {operation: REMOVE}
        destination_version: {operation: REMOVE}`

// strict has proxies call each other in mutual TLS, or in plaintext.
func (o Options) strict() string {
	return fmt.Sprintf(`apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: %s}}`, map[bool]string{true: "STRICT", false: "DISABLE"}[o.MutualTLS])
}

// meshConfig turns what proxies report on and off.
func (o Options) meshConfig() string {
	log, encoding, metrics := "", "TEXT", []string{}
	if o.AccessLogs {
		log = "/dev/stdout"
	}
	if o.JSONLogs {
		encoding = "JSON"
	}
	if o.Telemetry {
		metrics = append(metrics, "prometheus")
	}
	return fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    accessLogFile: %q
    accessLogEncoding: %s
    defaultProviders: {metrics: %s}
    extensionProviders:
    - name: %s
      opentelemetry:
        service: %s.%s.svc.cluster.local
        port: %d
        http: {path: /v1/traces, timeout: 5s}`, log, encoding, quoted(metrics...), spans, spans, namespace,
		traffic.HTTP1.Port())
}

// spans is the provider of traces, and the workload that takes them: Fortio's server, which answers
// any request.
const spans = "collector"

func (o Options) collector() string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s, sidecar.istio.io/inject: "false"}}
    spec: {containers: [{name: app, command: %[3]s, ports: [{containerPort: %[4]d}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: %[2]s}
spec: {selector: {app: %[1]s}, ports: [{name: http, port: %[4]d}]}`, spans, namespace,
		o.serve(), traffic.HTTP1.Port())
}

// serve is the command of a server of Fortio's.
func (o Options) serve() string {
	return quoted(o.Self, "server", "--address", "$(LATEEN_APP_ADDRESS)")
}

// quoted is a list of strings in YAML, which reads JSON.
func quoted(words ...string) string {
	encoded, _ := json.Marshal(words) // of strings, which cannot fail
	return string(encoded)
}

func (o Options) deployment(name, command, ports string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata:
      labels: {app: %[1]s}
      annotations: {proxy.istio.io/config: "concurrency: %[3]d"}
    spec:
      containers:
      - name: app
        command: %[4]s
        ports: [%[5]s]`, name, namespace, o.Workers, command, ports)
}

func serverPorts() string {
	var ports []string
	for _, p := range traffic.Protocols() {
		ports = append(ports, fmt.Sprintf("{containerPort: %d}", traffic.Protocol(p).Port()))
	}
	return strings.Join(ports, ", ")
}

// service is a Service with a port for each of these protocols.
func service(name string, protocols []string) string {
	var ports []string
	for _, p := range protocols {
		ports = append(ports, fmt.Sprintf("{name: %s, port: %d}", p, traffic.Protocol(p).Port()))
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: %[2]s}
spec: {selector: {app: %[1]s}, ports: [%[3]s]}`, name, namespace, strings.Join(ports, ", "))
}

// gateway is a gateway's Deployment and its Service, which is of no type that opens a port here.
func (o Options) gateway() string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: gateway, namespace: %[1]s}
spec:
  selector: {matchLabels: {istio: perf}}
  template:
    metadata:
      labels: {istio: perf}
      annotations: {inject.istio.io/templates: gateway, proxy.istio.io/config: "concurrency: %[2]d"}
    spec:
      containers:
      - name: istio-proxy
        image: auto
        ports: [{containerPort: %[3]d}, {containerPort: %[4]d}]
---
apiVersion: v1
kind: Service
metadata: {name: gateway, namespace: %[1]s}
spec:
  selector: {istio: perf}
  ports: [{name: http, port: %[3]d}, {name: tcp, port: %[4]d}]`, namespace, o.Workers, gatewayPort, gatewayTCPPort)
}

// wayIn leads HTTP of any version by a header to the server's port, and TCP by the gateway's port.
func wayIn() string {
	route := func(p traffic.Protocol) string {
		return fmt.Sprintf(`
  - match: [{authority: {exact: "%s.%s"}}]
    route: [{destination: {host: server, port: {number: %d}}}]`, p, gatewayHost, p.Port())
	}
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gateway, namespace: %[1]s}
spec:
  selector: {istio: perf}
  servers:
  - port: {number: %[2]d, name: http, protocol: HTTP}
    hosts: ["*.%[3]s", %[9]s]
  - port: {number: %[4]d, name: tcp, protocol: TCP}
    hosts: ["*"]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: server, namespace: %[1]s}
spec:
  hosts: ["*.%[3]s"]
  gateways: [gateway]
  http:%[5]s%[6]s%[7]s
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: server-tcp, namespace: %[1]s}
spec:
  hosts: ["*"]
  gateways: [gateway]
  tcp:
  - match: [{port: %[4]d}]
    route: [{destination: {host: server, port: {number: %[8]d}}}]`, namespace, gatewayPort, gatewayHost,
		gatewayTCPPort, route(traffic.HTTP1), route(traffic.HTTP2), route(traffic.GRPC), traffic.TCP.Port(),
		clientHost)
}

// policy is one of some AuthorizationPolicies. Only the last allows the requests that are sent, so
// that the server's proxy looks at all of them.
func policy(i, all int) string {
	ports := fmt.Sprintf(`"%d"`, 10000+i) // which nothing serves
	if i == all-1 {
		var open []string
		for _, p := range traffic.Protocols() {
			open = append(open, fmt.Sprintf(`"%d"`, traffic.Protocol(p).Port()))
		}
		ports = strings.Join(open, ", ")
	}
	return fmt.Sprintf(`apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: policy-%03d, namespace: %s}
spec:
  selector: {matchLabels: {app: server}}
  action: ALLOW
  rules: [{to: [{operation: {ports: [%s]}}]}]`, i, namespace, ports)
}
