package state

import (
	"iter"
	"slices"
	"sync/atomic"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Snapshot is the mesh at one generation. It never changes; snapshots that follow each other share what stayed equal.
// Where objects claim the same thing, methods yield them in the total order of model.Meta.Compare, the winner first.
type Snapshot struct {
	Generation uint64
	Mesh       *model.MeshConfig

	services              table[model.Service]
	virtualServices       table[model.VirtualService]
	destinationRules      table[model.DestinationRule]
	gateways              table[model.Gateway]
	credentials           table[model.Credential]
	sidecars              table[model.Sidecar]
	authorizationPolicies table[model.AuthorizationPolicy]
	peerAuthentications   table[model.PeerAuthentication]
	nodes                 table[model.Node]
	slices                table[model.EndpointSlice]
	workloadEntries       table[model.WorkloadEntry]

	hosts      index[model.Host]      // reversed host; of all services
	selectors  index[model.Labels]    // first pair, text, kind, namespace, name; over workloads, of all types
	workloads  *btree[model.Workload] // namespace, name
	podsByNode *btree[model.Workload] // node, namespace, name
	endpoints  index[*EndpointSet]    // host, namespace, entry
	accounts   index[*accounts]       // host, namespace, entry

	pendingHosts int
	subsets      int
	lookups      *atomic.Uint64 // of this snapshot and those before and after; nil if they are not counted
}

func emptySnapshot(lookups *atomic.Uint64) *Snapshot {
	mesh := model.DefaultMesh()
	w := &Snapshot{
		Mesh:       &mesh,
		hosts:      newIndex[model.Host](lookups),
		selectors:  newIndex[model.Labels](lookups),
		workloads:  newBTree(lookups, byName),
		podsByNode: newBTree(lookups, byNode),
		endpoints:  newIndex[*EndpointSet](lookups),
		accounts:   newIndex[*accounts](lookups),
		lookups:    lookups,
	}
	for _, t := range tables {
		t.create(w, lookups)
	}
	return w
}

// Services yields all services by host.
func (w *Snapshot) Services() iter.Seq[*model.Service] {
	return w.services.by[servicesByHost].under(nil)
}

// Claims yields the services that claim a host.
func (w *Snapshot) Claims(host model.Host) iter.Seq[*model.Service] {
	return w.services.by[servicesByHost].under(join(string(host)))
}

// ServicesIn yields the services of a namespace by host.
func (w *Snapshot) ServicesIn(namespace string) iter.Seq[*model.Service] {
	return w.services.by[servicesByNamespace].under(join(namespace))
}

// ServicesSelecting yields the services of a namespace that select workloads with these labels.
func (w *Snapshot) ServicesSelecting(namespace string, labels model.Labels) iter.Seq[*model.Service] {
	return selecting(w.services.by[servicesBySelector], namespace, labels)
}

func selecting(ix index[*model.Service], namespace string, labels model.Labels) iter.Seq[*model.Service] {
	return func(yield func(*model.Service) bool) {
		for pair := range labels.Pairs() {
			for s := range ix.under(join(namespace, pair)) {
				if s.Selector.Selects(labels) && !yield(s) {
					return
				}
			}
		}
	}
}

// TCPServicesOn yields the services that have a port whose connections nothing but the port tells apart.
func (w *Snapshot) TCPServicesOn(port uint16) iter.Seq[*model.Service] {
	return w.services.by[servicesByPort].under(portPrefix(port, model.TCP))
}

// TCPServicesAfter yields those of TCPServicesOn that come after a service of their kind, be that still there or not.
func (w *Snapshot) TCPServicesAfter(port uint16, s *model.Service) iter.Seq[*model.Service] {
	prefix := portPrefix(port, model.TCP)
	return w.services.by[servicesByPort].after(prefix, ordered(slices.Clone(prefix), &s.Meta, s.Host))
}

// TLSServicesOn yields the services that have a port with TLS, whose connections SNI tells apart.
func (w *Snapshot) TLSServicesOn(port uint16) iter.Seq[*model.Service] {
	return w.services.by[servicesByPort].under(portPrefix(port, model.TLS))
}

// ServicesAt yields the services that have a virtual IP and a port, which is not one of UDP.
func (w *Snapshot) ServicesAt(address string, port uint16) iter.Seq[*model.Service] {
	return w.services.by[servicesByVIP].under(vipPrefix(address, port))
}

// LooseServicesOn yields the services with a port whose connections no virtual IP tells from others on it.
func (w *Snapshot) LooseServicesOn(port uint16, kind Loose) iter.Seq[*model.Service] {
	return w.services.by[servicesLoose].under(loosePrefix(port, kind))
}

// LooseServicesAfter yields those of LooseServicesOn that come after a service of their kind, be that still there or not.
func (w *Snapshot) LooseServicesAfter(port uint16, kind Loose, s *model.Service) iter.Seq[*model.Service] {
	prefix := loosePrefix(port, kind)
	return w.services.by[servicesLoose].after(prefix, ordered(slices.Clone(prefix), &s.Meta, s.Host))
}

// HostsUnder yields the hosts of services that a pattern covers; for a plain name that is the name itself, be there a service
// or not.
func (w *Snapshot) HostsUnder(pattern model.Host) iter.Seq[model.Host] {
	if !pattern.IsWildcard() {
		return func(yield func(model.Host) bool) { yield(pattern) }
	}
	return w.hosts.under(reversed(pattern[1:]))
}

// VirtualServices yields all VirtualServices.
func (w *Snapshot) VirtualServices() iter.Seq[*model.VirtualService] {
	return w.virtualServices.by[virtualServicesByName].under(nil)
}

// VirtualService finds a VirtualService by name, nil if there is none.
func (w *Snapshot) VirtualService(namespace, name string) *model.VirtualService {
	found, _ := w.virtualServices.by[virtualServicesByName].get(join(namespace, name))
	return found
}

// VirtualServicesIn yields the VirtualServices of a namespace.
func (w *Snapshot) VirtualServicesIn(namespace string) iter.Seq[*model.VirtualService] {
	return w.virtualServices.by[virtualServicesByName].under(join(namespace))
}

// VirtualServicesOf yields the VirtualServices that list exactly this host, which may be a wildcard.
func (w *Snapshot) VirtualServicesOf(host model.Host) iter.Seq[*model.VirtualService] {
	return w.virtualServices.by[virtualServicesByHost].under(join(string(host)))
}

// VirtualServicesAt yields the VirtualServices of a gateway, by its "namespace/name".
func (w *Snapshot) VirtualServicesAt(gateway string) iter.Seq[*model.VirtualService] {
	return w.virtualServices.by[virtualServicesByGateway].under(join(gateway))
}

// VirtualServicesTo yields the VirtualServices with a route to a host.
func (w *Snapshot) VirtualServicesTo(host model.Host) iter.Seq[*model.VirtualService] {
	return w.virtualServices.by[virtualServicesByDestination].under(join(string(host)))
}

// DestinationRulesOf yields the DestinationRules for exactly this host, which may be a wildcard.
func (w *Snapshot) DestinationRulesOf(host model.Host) iter.Seq[*model.DestinationRule] {
	return w.destinationRules.by[destinationRulesByHost].under(join(string(host)))
}

// Gateways yields all Gateways.
func (w *Snapshot) Gateways() iter.Seq[*model.Gateway] {
	return w.gateways.by[gatewaysInOrder].under(nil)
}

// Gateway finds a Gateway by "namespace/name", nil if there is none.
func (w *Snapshot) Gateway(name string) *model.Gateway {
	found, _ := w.gateways.by[gatewaysByName].get(join(name))
	return found
}

// ForwardingGateways yields the Gateways that hand connections of the mesh on by the destinations that they name.
func (w *Snapshot) ForwardingGateways() iter.Seq[*model.Gateway] {
	return w.gateways.by[gatewaysForwarding].under(nil)
}

// GatewaysWith yields the Gateways that name a credential.
func (w *Snapshot) GatewaysWith(credential string) iter.Seq[*model.Gateway] {
	return w.gateways.by[gatewaysByCredential].under(join(credential))
}

// DestinationRulesWith yields the DestinationRules that name a credential.
func (w *Snapshot) DestinationRulesWith(credential string) iter.Seq[*model.DestinationRule] {
	return w.destinationRules.by[destinationRulesByCredential].under(join(credential))
}

// DestinationRulesWithAny yields the DestinationRules that name credentials, once for each.
func (w *Snapshot) DestinationRulesWithAny() iter.Seq[*model.DestinationRule] {
	return w.destinationRules.by[destinationRulesByCredential].under(nil)
}

// Credential finds what a Secret holds for TLS, nil if there is no such Secret or it holds nothing.
func (w *Snapshot) Credential(namespace, name string) *model.Credential {
	found, _ := w.credentials.by[credentialsByName].get(join(namespace, name))
	return found
}

// Sidecars yields the Sidecars of a namespace.
func (w *Snapshot) Sidecars(namespace string) iter.Seq[*model.Sidecar] {
	return w.sidecars.by[sidecarsByNamespace].under(join(namespace))
}

// AuthorizationPolicies yields the AuthorizationPolicies of a namespace.
func (w *Snapshot) AuthorizationPolicies(namespace string) iter.Seq[*model.AuthorizationPolicy] {
	return w.authorizationPolicies.by[authorizationPoliciesByNamespace].under(join(namespace))
}

// PeerAuthentications yields the PeerAuthentications of a namespace.
func (w *Snapshot) PeerAuthentications(namespace string) iter.Seq[*model.PeerAuthentication] {
	return w.peerAuthentications.by[peerAuthenticationsByNamespace].under(join(namespace))
}

// Workload finds a workload by name, nil if there is none.
func (w *Snapshot) Workload(namespace, name string) *model.Workload {
	return w.workloads.get(podNamed(namespace, name))
}

// WorkloadsOn yields the workloads that run on a node.
func (w *Snapshot) WorkloadsOn(node string) iter.Seq[*model.Workload] {
	return podsOn(w.podsByNode, node)
}

// LocalityOf is where a workload runs: as it says itself, or else as its node does.
func (w *Snapshot) LocalityOf(workload *model.Workload) model.Locality {
	return w.localityOn(workload.Node, workload.Locality)
}

// localityOn is where what runs on a node is: as it says itself, or else as the node does.
func (w *Snapshot) localityOn(node string, own model.Locality) model.Locality {
	if own != (model.Locality{}) || node == "" {
		return own
	}
	if n, known := w.nodes.by[nodesByName].get(join(node)); known {
		return n.Locality
	}
	return model.Locality{}
}

// Endpoints are the endpoints of a service; never nil.
func (w *Snapshot) Endpoints(s *model.Service) *EndpointSet {
	if set, ok := w.endpoints.get(serviceIDOf(s).key()); ok {
		return set
	}
	return noEndpoints
}

// SelectorsOf yields the selectors over workloads that some Gateway, VirtualService (sourceLabels), DestinationRule, Sidecar or
// guard uses and that select these labels; it may yield one several times in a row. Which of them match is all that a class of
// proxies keeps of its labels.
func (w *Snapshot) SelectorsOf(labels model.Labels) iter.Seq[model.Labels] {
	return func(yield func(model.Labels) bool) {
		for pair := range labels.Pairs() {
			for s := range w.selectors.under(join(pair)) {
				if s.Selects(labels) && !yield(s) {
					return
				}
			}
		}
	}
}

// Names tells whether some service or VirtualService has exactly this host.
func (w *Snapshot) Names(host model.Host) bool {
	_, service := w.services.by[servicesByHost].first(join(string(host)))
	_, routes := w.virtualServices.by[virtualServicesByHost].first(join(string(host)))
	return service || routes
}

// Counts are sizes for metrics.
type Counts struct {
	Services, WithoutEndpoints, VirtualServices, Subsets, PendingEndpoints int
}

// Counts are the sizes of the snapshot. They are kept, not counted.
func (w *Snapshot) Counts() Counts {
	return Counts{
		Services: w.hosts.len(), WithoutEndpoints: max(0, w.services.by[servicesByHost].len()-w.endpoints.len()), VirtualServices: w.virtualServices.by[virtualServicesByName].len(),
		Subsets: w.subsets, PendingEndpoints: w.pendingHosts,
	}
}

// Lookups returns how many entries of indexes have been looked at so far, in this snapshot and in those
// before and after it. Only a NewCountingWriter counts them; else it is 0.
func (w *Snapshot) Lookups() uint64 {
	if w.lookups == nil {
		return 0
	}
	return w.lookups.Load()
}
