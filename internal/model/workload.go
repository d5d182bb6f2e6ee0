package model

import "github.com/lateen-mesh/lateen/internal/source"

// Namespace is what Lateen uses of a Kubernetes namespace.
type Namespace struct {
	Meta
	Labels Labels
}

// Workload is one Pod.
type Workload struct {
	Meta
	Labels         Labels
	ServiceAccount string
	Addresses      []string // pod IPs, the primary one first
	Node           string
	Locality       Locality
	Ports          []WorkloadPort // named container ports, which named target ports refer to
	// OwnApp and OwnOutbound are loopback addresses of the pod's own in a local mesh (annotations lateen.io/app-address and
	// lateen.io/outbound-address); empty in a cluster.
	OwnApp, OwnOutbound string
}

// WorkloadPort is a container port.
type WorkloadPort struct {
	Name string
	Port uint16
}

// EndpointSlice lists addresses of a service, as Kubernetes publishes them; the world joins it with Workloads.
type EndpointSlice struct {
	Meta
	Service string // name in the slice's namespace
	Ports   []SlicePort
	Hosts   []SliceHost
}

// SlicePort is a port that all addresses of a slice serve.
type SlicePort struct {
	Name string // of the service port
	Port uint16
}

// SliceHost is one address of a slice with its conditions.
type SliceHost struct {
	Address string // an IP literal
	Health  Health
	Pod     string // name of the pod in the slice's namespace, empty if none
	Node    string
	Zone    string
}

// ServiceKey is the Kubernetes Service that the slice belongs to.
func (e *EndpointSlice) ServiceKey() source.Key {
	return source.Key{Kind: source.Service, Namespace: e.Namespace, Name: e.Service}
}

// PortNamed finds a container port by name, 0 if there is none.
func (w *Workload) PortNamed(name string) uint16 {
	for _, p := range w.Ports {
		if p.Name == name {
			return p.Port
		}
	}
	return 0
}
