package census

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// Census is what a mesh has. Its lists are sorted by name.
type Census struct {
	RootNamespace string `json:"rootNamespace"`
	// RegistryOnly is set if calls of hosts that a proxy does not know fail.
	RegistryOnly bool `json:"registryOnly,omitempty"`
	// Reports say what proxies log and trace.
	Reports
	Namespaces []Namespace `json:"namespaces"`
	Services   []Service   `json:"services"`
	// RoutedPorts is how many ports of services the routes of gateways lead to.
	RoutedPorts int `json:"routedPorts"`
}

// Namespace is one namespace with workloads, services or objects of Istio.
type Namespace struct {
	Name string `json:"name"`
	// Workloads are the Pods that are no gateways, Gateways those that are.
	Workloads int `json:"workloads"`
	Gateways  int `json:"gateways,omitempty"`
	Services  int `json:"services"`
	// SeenServices and SeenPorts are those that a sidecar of the namespace sees, unless a Sidecar
	// selects its workload. Only namespaces with workloads have them.
	SeenServices int `json:"seenServices"`
	SeenPorts    int `json:"seenPorts"`
	// Sidecar is the name of the Sidecar for the whole namespace. Selecting counts those for some
	// of its workloads.
	Sidecar   string `json:"sidecar,omitempty"`
	Selecting int    `json:"selectingSidecars,omitempty"`
	// Configures is set if the namespace has a VirtualService, DestinationRule, Gateway or
	// ServiceEntry.
	Configures bool `json:"configures,omitempty"`
	// Admins are the addresses of the Envoys of its workloads in a local mesh.
	Admins []string `json:"admins,omitempty"`
}

// Service is one host that can be called.
type Service struct {
	Host      model.Host    `json:"host"`
	Kind      kinds.Kind    `json:"kind"`
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	Ports     int           `json:"ports"`
	ExportTo  model.Exports `json:"exportTo"`
	// Lookups is how many names each proxy that sees it looks up at once.
	Lookups int `json:"lookups,omitempty"`
	// RoutedFrom are the hosts of which VirtualServices for callers in the mesh lead to it.
	RoutedFrom []model.ScopedHost `json:"routedFrom,omitempty"`
}

// Of counts what a snapshot has.
func Of(w *state.Snapshot) Census {
	c := Census{
		RootNamespace: w.Mesh.RootNamespace, RegistryOnly: w.Mesh.Outbound.RegistryOnly,
		Reports: reportsOf(w), Namespaces: []Namespace{}, Services: []Service{},
	}
	spaces := counter{map[string]*Namespace{}}
	routedFrom := map[model.Host][]model.ScopedHost{}
	atGateways := map[model.Host]bool{}
	for v := range w.VirtualServices() {
		spaces.at(v.Namespace).Configures = true
		addRoutes(v, routedFrom, atGateways)
	}
	for d := range w.Delegations() {
		spaces.addDelegates(d)
	}
	for g := range w.Gateways() {
		spaces.at(g.Namespace).Configures = true
	}
	for svc := range w.Services() {
		n := spaces.at(svc.Namespace)
		n.Services++
		n.Configures = n.Configures || svc.Kind == kinds.ServiceEntry
		c.Services = append(c.Services, serviceOf(w, svc, routedFrom))
		if atGateways[svc.Host] {
			c.RoutedPorts += len(svc.Ports)
		}
	}
	for pod := range w.Workloads() {
		spaces.at(pod.Namespace).add(pod)
	}
	c.Namespaces = spaces.finish(w)
	slices.SortFunc(c.Services, func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return c
}

// addDelegates notes the namespaces that have the delegates of a root, or a delegate alone.
func (c counter) addDelegates(d *model.DelegationStatus) {
	c.at(d.Namespace).Configures = true
	for _, r := range d.Routes {
		if r.Delegate != (model.ObjectName{}) {
			c.at(r.Delegate.Namespace).Configures = true
		}
	}
}

// addRoutes notes the destinations of a VirtualService.
func addRoutes(v *model.VirtualService, from map[model.Host][]model.ScopedHost, atGateways map[model.Host]bool) {
	inMesh := slices.Contains(v.Gateways, model.Mesh)
	for _, to := range state.DestinationHosts(v) {
		if !inMesh || len(v.Gateways) > 1 {
			atGateways[to] = true
		}
		for _, host := range v.Hosts {
			if inMesh && host != to {
				from[to] = append(from[to], model.ScopedHost{Namespace: v.Namespace, Host: host})
			}
		}
	}
}

func serviceOf(w *state.Snapshot, svc *model.Service, routedFrom map[model.Host][]model.ScopedHost) Service {
	return Service{
		Host: svc.Host, Kind: svc.Kind, Namespace: svc.Namespace, Name: svc.Name, Ports: len(svc.Ports),
		ExportTo: svc.ExportTo, Lookups: lookups(w, svc), RoutedFrom: routedFrom[svc.Host],
	}
}

// lookups returns how many names a proxy looks up for a service: those of each port, since each
// port is a cluster of its own.
func lookups(w *state.Snapshot, svc *model.Service) int {
	if !svc.Resolution.IsByDNS() {
		return 0
	}
	names := map[string]bool{}
	for _, e := range w.Endpoints(svc).All() {
		if _, err := netip.ParseAddr(e.Address); err != nil {
			names[e.Address] = true
		}
	}
	return len(svc.Ports) * len(names)
}

// counter finds a namespace by its name.
type counter struct{ byName map[string]*Namespace }

func (c counter) at(name string) *Namespace {
	n := c.byName[name]
	if n == nil {
		n = &Namespace{Name: name}
		c.byName[name] = n
	}
	return n
}

func (n *Namespace) add(pod *model.Workload) {
	if pod.Gateway {
		n.Gateways++
	} else {
		n.Workloads++
	}
	if pod.Own != nil && pod.Own.Outbound != "" {
		n.Admins = append(n.Admins, pod.Own.Outbound)
	}
}

// finish returns the namespaces, with what their sidecars see.
func (c counter) finish(w *state.Snapshot) []Namespace {
	all := []Namespace{}
	classifier, cache := scope.NewClassifier(), scope.NewLookupCache()
	for _, n := range c.byName {
		for range w.DestinationRulesIn(n.Name) {
			n.Configures = true
			break
		}
		for s := range w.Sidecars(n.Name) {
			switch {
			case !s.Selector.IsEmpty():
				n.Selecting++
			case n.Sidecar == "":
				n.Sidecar = s.Name
			}
		}
		if n.Workloads > 0 {
			class := classifier.Classify(w, scope.Proxy{Type: scope.Sidecar, Namespace: n.Name})
			seen := scope.New(w, &class)
			seen.Cache = cache
			for host := range seen.Hosts() {
				if svc := seen.Service(host); svc != nil {
					n.SeenServices++
					n.SeenPorts += len(svc.Ports)
				}
			}
		}
		slices.Sort(n.Admins)
		all = append(all, *n)
	}
	slices.SortFunc(all, func(a, b Namespace) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
