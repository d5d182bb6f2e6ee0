package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unique"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Namespace is what Lateen uses of a Kubernetes namespace.
type Namespace struct {
	Meta
	Labels Labels
	Budget ChangeBudget // of its objects; zero fields stand for the mesh's
}

// ChangeBudget is how many proxies a change of an object may reach. Zero is without a limit.
type ChangeBudget struct {
	Warns, Refuses int // from so many on
}

// Node is what Lateen uses of a Kubernetes node: where its pods run.
type Node struct {
	Meta
	Locality Locality
}

// Workload is one Pod.
type Workload struct {
	Meta
	Labels         Labels
	ServiceAccount string
	Addresses      []string // pod IPs, the primary one first
	Node           string
	Locality       Locality // its own; without one it is that of the node
	Ports          PortNames
	Own            *OwnAddresses // nil in a cluster
	// Gateway is set if the Pod's proxy is a gateway, as the Pod says and not as the proxy claims.
	Gateway bool
}

// OwnAddresses are a pod's own loopback addresses in a local mesh (annotations
// lateen.io/app-address and lateen.io/outbound-address). Either may be empty.
type OwnAddresses struct{ App, Outbound string }

// PortNames are numbers of container ports by name, to which named target ports refer:
// "admin=9090,http=8080", sorted. Replicas share one string.
type PortNames string

// PortNamesOf makes PortNames of a map.
func PortNamesOf(m map[string]uint16) PortNames {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, fmt.Sprintf("%s=%d", name, m[name]))
	}
	return PortNames(unique.Make(strings.Join(pairs, ",")).Value())
}

// Number returns the number of a port; 0 if none has the name.
func (p PortNames) Number(name string) uint16 {
	for pair := range strings.SplitSeq(string(p), ",") {
		if known, number, _ := strings.Cut(pair, "="); known == name {
			n, _ := strconv.ParseUint(number, 10, 16)
			return uint16(n)
		}
	}
	return 0
}

// EndpointSlice lists addresses of a service, as Kubernetes publishes them. Mesh/state joins it
// with Workloads.
type EndpointSlice struct {
	Meta
	Service string // name in the slice's namespace
	Ports   []SlicePort
	Hosts   []SliceHost
	// Unready are the names of pods with addresses here that are not among Hosts: not yet, or no
	// longer. Sorted.
	Unready []string
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
	Hints   Zones
	// Hostname is the first part of the pod's own name in DNS, empty if it has none.
	Hostname string
}

// ServiceKey returns the Kubernetes Service that the slice belongs to.
func (e *EndpointSlice) ServiceKey() source.Key {
	return source.Key{Kind: kinds.Service, Namespace: e.Namespace, Name: e.Service}
}

// ReuseStrings replaces strings of w by equal ones of another workload, to share their memory.
// Nobody else may have w yet. A nil o changes nothing.
func (w *Workload) ReuseStrings(o *Workload) {
	if o == nil {
		return
	}
	reuse(&w.Namespace, o.Namespace)
	reuse(&w.Name, o.Name)
	reuse(&w.Labels.text, o.Labels.text)
	reuse(&w.Labels.pod, w.Name)
	reuse(&w.ServiceAccount, o.ServiceAccount)
	reuse(&w.Node, o.Node)
	reuse(&w.Ports, o.Ports)
	reuse(&w.Locality, o.Locality)
}

func reuse[T comparable](own *T, other T) {
	if *own == other {
		*own = other
	}
}

// OtherAddress returns the workload's first address of the other family than the given one; "" if
// there is none, or if the given one is not the workload's.
func (w *Workload) OtherAddress(address string) string {
	if len(w.Addresses) < 2 || !slices.Contains(w.Addresses, address) {
		return ""
	}
	for _, a := range w.Addresses {
		if !IPv6.Has(a) == IPv6.Has(address) {
			return a
		}
	}
	return ""
}
