package dataplane

import (
	"context"
	"strings"
)

// Application is a mesh of real Envoys with an application of the caller's own.
type Application struct{ mesh *mesh }

// Deployment is one workload of an application, of one pod.
type Deployment struct {
	Name string
	// Command is what its container runs. "$(LATEEN_APP_ADDRESS)" is where it has to listen.
	Command []string
	// Port is where it does.
	Port string
}

// Manifest returns the Deployment in the namespace of all applications.
func (d Deployment) Manifest(o Options) string {
	return o.deployment(d.Name, quoted(d.Command...), "{containerPort: "+d.Port+"}")
}

// Namespace is that of all applications.
const Namespace = namespace

// GatewayPort is where the gateway of an application takes HTTP.
const GatewayPort = gatewayPort

// StartApplication runs manifests beside a gateway with the labels istio: perf, and returns when
// the pods of all workloads are ready and all proxies in sync. Of the options those of the mesh
// count.
func StartApplication(
	ctx context.Context, o Options, manifests []string, workloads ...string,
) (*Application, error) {
	common := []string{
		o.meshConfig(), "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + namespace + "}", o.gateway(), o.strict(),
	}
	all := strings.Join(append(common, manifests...), "\n---\n") + "\n"
	m, err := startMeshOf(ctx, o, all, append(workloads, "gateway")...)
	return &Application{m}, err
}

// Gateway returns where the gateway takes HTTP, as host:port.
func (a *Application) Gateway() string { return at(a.mesh.pod("gateway").Pod, gatewayPort) }

// Problems returns what the control plane says of the manifests, which should be nothing.
func (a *Application) Problems() []string { return a.mesh.problems() }

// Stop ends everything that was started.
func (a *Application) Stop() error { return a.mesh.stop() }
