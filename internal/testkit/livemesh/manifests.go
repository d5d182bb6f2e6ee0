package livemesh

import (
	"fmt"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// Echo is a Deployment of the echo server as a manifest, to be changed by its methods.
type Echo struct {
	name, namespace, app, version string
	replicas                      int
	ports                         []int
	tcp                           []int
	portName                      string
	node                          string
	bare                          bool
	listen                        []int
}

// NewEcho is a Deployment NAME-VERSION of the app NAME with one replica that answers HTTP at port
// 8080. Its labels are app and version.
func NewEcho(app, version string) Echo {
	return Echo{
		name:      app + "-" + version,
		app:       app,
		version:   version,
		namespace: "default",
		replicas:  1,
		ports:     []int{8080},
	}
}

// In sets the namespace.
func (e Echo) In(namespace string) Echo { e.namespace = namespace; return e }

// Named sets the Deployment's name.
func (e Echo) Named(name string) Echo { e.name = name; return e }

// Replicas sets how many there are.
func (e Echo) Replicas(n int) Echo { e.replicas = n; return e }

// HTTP sets the ports that answer HTTP.
func (e Echo) HTTP(ports ...int) Echo { e.ports = ports; return e }

// TCP sets the ports that answer lines.
func (e Echo) TCP(ports ...int) Echo { e.tcp = ports; return e }

// PortName names the first port of the container.
func (e Echo) PortName(name string) Echo { e.portName = name; return e }

// On puts the pods on a node.
func (e Echo) On(node string) Echo { e.node = node; return e }

// Bare leaves out the sidecar.
func (e Echo) Bare() Echo { e.bare = true; return e }

// Refusing makes the process listen elsewhere than the container says, so that connections to its
// ports are refused.
func (e Echo) Refusing(port int) Echo { e.listen = []int{port}; return e }

// String is the manifest.
func (e Echo) String() string {
	var args, ports []string
	listen := e.ports
	if e.listen != nil {
		listen = e.listen
	}
	for _, p := range listen {
		args = append(args, fmt.Sprintf("--port=%d", p))
	}
	for _, p := range e.tcp {
		args = append(args, fmt.Sprintf("--tcp=%d", p))
	}
	for _, p := range append(append([]int(nil), e.ports...), e.tcp...) {
		if e.listen == nil {
			ports = append(ports, fmt.Sprintf("{containerPort: %d%s}", p, e.nameOf(p)))
		}
	}
	return fmt.Sprintf(`
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: %s}
spec:
  replicas: %d
  selector: {matchLabels: {app: %s, version: %s}}
  template:
    metadata: {labels: {app: %s, version: %s, sidecar.istio.io/inject: "%t"}}
    spec:
      nodeName: %q
      containers:
      - name: echo
        image: lateen/sample
        args: ["--version=%s", "%s"]
        ports: [%s]
`, e.name, e.namespace, e.replicas, e.app, e.version, e.app, e.version, !e.bare, e.node, e.version,
		strings.Join(args, `", "`), strings.Join(ports, ", "))
}

func (e Echo) nameOf(port int) string {
	if e.portName == "" || port != e.ports[0] {
		return ""
	}
	return ", name: " + e.portName
}

// Node is the manifest of a node at "region/zone".
func Node(name, at string) string {
	region, zone, _ := strings.Cut(at, "/")
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Node
metadata: {name: %s, labels: {topology.kubernetes.io/region: %s, topology.kubernetes.io/zone: %s}}
`, name, region, zone)
}

// Service is the manifest of a Service "namespace/name" or "name" of the app of its name; a port is
// "name:port" or "name:port:target".
func Service(name string, ports ...string) string {
	namespace, short, qualified := strings.Cut(name, "/")
	if !qualified {
		namespace, short = "default", name
	}
	return Selecting(namespace, short, "app: "+short, ports...)
}

// Selecting is the manifest of a Service with the selector given.
func Selecting(namespace, name, selector string, ports ...string) string {
	var list []string
	for _, p := range ports {
		parts := strings.SplitN(p, ":", 3)
		entry := "{name: " + parts[0] + ", port: " + parts[1]
		if len(parts) == 3 {
			entry += ", targetPort: " + parts[2]
		}
		list = append(list, entry+"}")
	}
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Service
metadata: {name: %s, namespace: %s}
spec:
  selector: {%s}
  ports: [%s]
`, name, namespace, selector, strings.Join(list, ", "))
}

// Headless is a Service without an address of its own.
func Headless(name string, ports ...string) string {
	return strings.Replace(Service(name, ports...), "spec:\n", "spec:\n  clusterIP: None\n", 1)
}

// GatewayPod is the manifest of a gateway workload "istio-ingress" with the label istio: ingress,
// and the Service that names its ports.
func GatewayPod(ports ...int) string {
	var containerPorts, servicePorts []string
	for _, p := range ports {
		containerPorts = append(containerPorts, fmt.Sprintf("{containerPort: %d}", p))
		servicePorts = append(servicePorts, fmt.Sprintf("http-%d:%d", p, p))
	}
	return Selecting("default", "istio-ingress", "istio: ingress", servicePorts...) + fmt.Sprintf(`
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: istio-ingress}
spec:
  selector: {matchLabels: {istio: ingress}}
  template:
    metadata:
      labels: {istio: ingress}
      annotations: {inject.istio.io/templates: gateway}
    spec:
      containers:
      - name: istio-proxy
        image: auto
        ports: [%s]
`, strings.Join(containerPorts, ", "))
}

// Object is the manifest of an object of a kind that is read: "Kind namespace/name" or "Kind name".
func Object(key, spec string) string {
	kind, name, _ := strings.Cut(key, " ")
	namespace, short, qualified := strings.Cut(name, "/")
	if !qualified {
		namespace, short = "default", name
	}
	version := kinds.Of(kinds.Kind(kind)).APIVersions()[0]
	return fmt.Sprintf("\n---\napiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec:\n%s\n", version,
		kinds.Kind(kind).Name(), short, namespace, indent(spec))
}

// DryRun is an AuthorizationPolicy (Object) as one that decides nothing.
func DryRun(policy string) string {
	annotation := fmt.Sprintf("metadata: {annotations: {%s: \"true\"}, ", kinds.DryRunAnnotation)
	return strings.Replace(policy, "metadata: {", annotation, 1)
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}

// File is a file of a txtar archive; each part is a manifest.
func File(name string, parts ...any) string {
	var b strings.Builder
	b.WriteString("-- " + name + " --\n")
	for _, p := range parts {
		fmt.Fprint(&b, p)
	}
	return b.String() + "\n"
}
