package state

import (
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Snapshot is the mesh at one generation. It never changes, and consecutive snapshots share what
// stays equal. Where objects claim the same thing, methods yield them in the total order of
// model.Meta.Compare, the winner first.
type Snapshot struct {
	Generation uint64
	Mesh       *model.MeshConfig

	services               table[model.Service]
	virtualServices        table[model.VirtualService]
	rootRoutes             table[model.RootRoutes]
	delegateRoutes         table[model.DelegateRoutes]
	delegationStatuses     table[model.DelegationStatus]
	destinationRules       table[model.DestinationRule]
	gateways               table[model.Gateway]
	credentials            table[model.Credential]
	sidecars               table[model.Sidecar]
	authorizationPolicies  table[model.AuthorizationPolicy]
	peerAuthentications    table[model.PeerAuthentication]
	requestAuthentications table[model.RequestAuthentication]
	telemetries            table[model.Telemetry]
	envoyFilters           table[model.EnvoyFilter]
	proxyConfigs           table[model.ProxyConfig]
	keySets                table[model.KeySet]
	nodes                  table[model.Node]
	slices                 table[model.EndpointSlice]
	workloadEntries        table[model.WorkloadEntry]
	gatewayClasses         table[model.GatewayClass]
	kubernetesGateways     table[model.KubernetesGateway]
	attachedRoutes         table[model.AttachedRoute]
	referenceGrants        table[model.ReferenceGrant]
	namespaces             table[model.Namespace]
	gatewayAPIStatuses     table[model.GatewayAPIStatus]
	listenerSets           table[model.ListenerSet]
	servedGateways         table[model.ServedGateway]
	backendTLSPolicies     table[model.BackendTLSPolicy]
	certificateBundles     table[model.CertificateBundle]
	backendPolicies        table[model.BackendPolicy]

	hosts      index[model.Host]      // reversed host; of all services
	selectors  index[model.Labels]    // first pair, text, kind, namespace, name; over workloads, of all types
	workloads  *btree[model.Workload] // namespace, name
	podsByNode *btree[model.Workload] // node, namespace, name
	endpoints  index[*EndpointSet]    // host, namespace, entry
	accounts   index[*accounts]       // host, namespace, entry
	pods       index[servicePod]      // address, host, namespace, entry, endpoint id (podaddress.go)
	auto       autoAddresses

	defaults     *model.MeshConfig // what holds without a mesh configuration
	pendingHosts int
	unreadyHosts int
	subsets      int
	pools        int            // DestinationRules that limit connections
	lookups      *atomic.Uint64 // of this snapshot and those before and after; nil if they are not counted
}

func emptySnapshot(lookups *atomic.Uint64) *Snapshot {
	mesh := model.DefaultMesh()
	s := &Snapshot{
		Mesh:       &mesh,
		defaults:   &mesh,
		hosts:      newIndex[model.Host](lookups),
		selectors:  newIndex[model.Labels](lookups),
		workloads:  newBTree(lookups, byName),
		podsByNode: newBTree(lookups, byNode),
		endpoints:  newIndex[*EndpointSet](lookups),
		accounts:   newIndex[*accounts](lookups),
		pods:       newIndex[servicePod](lookups),
		auto: autoAddresses{
			from:    DefaultAutoRange(),
			byHost:  newIndex[*autoHolder](lookups),
			byPlace: newIndex[*autoHolder](lookups),
			passed:  newIndex[*autoHolder](lookups),
		},
		lookups: lookups,
	}
	for _, t := range tables {
		t.create(s, lookups)
	}
	return s
}

// Services yields all services by host.
func (s *Snapshot) Services() iter.Seq[*model.Service] {
	return s.services.by[servicesByHost].under(nil)
}

// Claims yields the services that claim a host.
func (s *Snapshot) Claims(host model.Host) iter.Seq[*model.Service] {
	return s.services.by[servicesByHost].under(join(string(host)))
}

// HasAliases reports whether there are Services of type ExternalName, so that a mesh without makes
// no keys to look them up by: each change of a host asks.
func (s *Snapshot) HasAliases() bool { return s.services.by[servicesByAlias].len() > 0 }

// HasPools reports whether DestinationRules limit connections, so that a mesh without asks for
// none.
func (s *Snapshot) HasPools() bool { return s.pools > 0 }

// HostsBehind yields a host, and those that it is another name of (Services of type ExternalName).
func (s *Snapshot) HostsBehind(host model.Host) iter.Seq[model.Host] {
	return func(yield func(model.Host) bool) {
		if !yield(host) || !s.HasAliases() {
			return
		}
		seen, next := []model.Host{host}, []model.Host{host}
		for range model.MaxAliases {
			var behind []model.Host
			for _, h := range next {
				for svc := range s.Claims(h) {
					if svc.AliasOf == "" || slices.Contains(seen, svc.AliasOf) {
						continue
					}
					if !yield(svc.AliasOf) {
						return
					}
					seen, behind = append(seen, svc.AliasOf), append(behind, svc.AliasOf)
				}
			}
			next = behind
		}
	}
}

// AliasesOf yields the Services of type ExternalName that stand for a host.
func (s *Snapshot) AliasesOf(host model.Host) iter.Seq[*model.Service] {
	return s.services.by[servicesByAlias].under(join(string(host)))
}

// ServicesIn yields the services of a namespace by host.
func (s *Snapshot) ServicesIn(namespace string) iter.Seq[*model.Service] {
	return s.services.by[servicesByNamespace].under(join(namespace))
}

// ServicesSelecting yields the services of a namespace that select workloads with these labels.
func (s *Snapshot) ServicesSelecting(namespace string, labels model.Labels) iter.Seq[*model.Service] {
	return selecting(s.services.by[servicesBySelector], namespace, labels)
}

// ListsAddresses reports whether a ServiceEntry lists an endpoint or a WorkloadEntry has an
// address, so that a mesh without makes no keys to look them up by: every proxy asks.
func (s *Snapshot) ListsAddresses() bool {
	return s.services.by[servicesByEndpoint].len()+s.workloadEntries.by[workloadEntriesByAddress].len() > 0
}

// ServicesListing yields the ServiceEntries of a namespace that list an endpoint with an address.
func (s *Snapshot) ServicesListing(namespace, address string) iter.Seq[*model.Service] {
	return s.services.by[servicesByEndpoint].under(join(namespace, address))
}

// WorkloadEntriesAt yields the WorkloadEntries of a namespace with an address.
func (s *Snapshot) WorkloadEntriesAt(namespace, address string) iter.Seq[*model.WorkloadEntry] {
	return s.workloadEntries.by[workloadEntriesByAddress].under(join(namespace, address))
}

func selecting(ix index[*model.Service], namespace string, labels model.Labels) iter.Seq[*model.Service] {
	return func(yield func(*model.Service) bool) {
		key := make([]byte, 0, 128)
		for pair := range labels.Pairs() {
			for svc := range ix.under(appendParts(key, namespace, pair)) {
				if svc.Selector.Selects(labels) && !yield(svc) {
					return
				}
			}
		}
	}
}

// TCPServicesOn yields the services with a port on which only the port number identifies the
// service.
func (s *Snapshot) TCPServicesOn(port uint16) iter.Seq[*model.Service] {
	return s.services.by[servicesByPort].under(portPrefix(port, model.TCP))
}

// TCPServicesAfter yields the services of TCPServicesOn that come after one of them. That one need
// not exist any more.
func (s *Snapshot) TCPServicesAfter(port uint16, svc *model.Service) iter.Seq[*model.Service] {
	prefix := portPrefix(port, model.TCP)
	return s.services.by[servicesByPort].after(prefix, ordered(slices.Clone(prefix), &svc.Meta, svc.Host))
}

// TLSServicesOn yields the services with a TLS port, on which SNI identifies the service.
func (s *Snapshot) TLSServicesOn(port uint16) iter.Seq[*model.Service] {
	return s.services.by[servicesByPort].under(portPrefix(port, model.TLS))
}

// ServicesAt yields the services that have a virtual IP and a port that is not UDP.
func (s *Snapshot) ServicesAt(address string, port uint16) iter.Seq[*model.Service] {
	return s.services.by[servicesByVIP].under(vipPrefix(address, port))
}

// ServicesByPortMatch yields the services with a port whose connections are matched without a
// virtual IP.
func (s *Snapshot) ServicesByPortMatch(port uint16, kind PortMatch) iter.Seq[*model.Service] {
	return s.services.by[servicesByPortMatch].under(portMatchPrefix(port, kind))
}

// ServicesByPortMatchAfter yields the services of ServicesByPortMatch that come after one of them.
// That one need not exist any more.
func (s *Snapshot) ServicesByPortMatchAfter(port uint16, kind PortMatch, svc *model.Service) iter.Seq[*model.Service] {
	prefix := portMatchPrefix(port, kind)
	return s.services.by[servicesByPortMatch].after(prefix, ordered(slices.Clone(prefix), &svc.Meta, svc.Host))
}

// HostsUnder yields the hosts of services that a pattern covers. A pattern without a wildcard
// yields itself, whether a service has it or not.
func (s *Snapshot) HostsUnder(pattern model.Host) iter.Seq[model.Host] {
	if !pattern.IsWildcard() {
		return func(yield func(model.Host) bool) { yield(pattern) }
	}
	return s.hosts.under(reversed(pattern[1:]))
}

// VirtualServices yields all VirtualServices.
func (s *Snapshot) VirtualServices() iter.Seq[*model.VirtualService] {
	return s.virtualServices.by[virtualServicesByName].under(nil)
}

// VirtualService finds a VirtualService by name, nil if there is none.
func (s *Snapshot) VirtualService(namespace, name string) *model.VirtualService {
	found, _ := s.virtualServices.by[virtualServicesByName].get(join(namespace, name))
	return found
}

// Delegation returns what the delegations of a VirtualService come to, or that nobody delegates to
// it; nil for one that does not delegate, and for a delegate in use.
func (s *Snapshot) Delegation(namespace, name string) *model.DelegationStatus {
	found, _ := s.delegationStatuses.by[delegationStatusesByName].get(join(namespace, name))
	return found
}

// Delegations yields what delegation comes to for each root, and each delegate that no root names.
func (s *Snapshot) Delegations() iter.Seq[*model.DelegationStatus] {
	return s.delegationStatuses.by[delegationStatusesByName].under(nil)
}

// VirtualServicesIn yields the VirtualServices of a namespace.
func (s *Snapshot) VirtualServicesIn(namespace string) iter.Seq[*model.VirtualService] {
	return s.virtualServices.by[virtualServicesByName].under(join(namespace))
}

// VirtualServicesOf yields the VirtualServices that list exactly this host, which may be a
// wildcard.
func (s *Snapshot) VirtualServicesOf(host model.Host) iter.Seq[*model.VirtualService] {
	return s.virtualServices.by[virtualServicesByHost].under(join(string(host)))
}

// HasVirtualServicesOf reports whether any VirtualService lists exactly this host.
func (s *Snapshot) HasVirtualServicesOf(host model.Host) bool {
	_, has := s.virtualServices.by[virtualServicesByHost].first(join(string(host)))
	return has
}

// VirtualServicesAt yields the VirtualServices of a gateway, by its "namespace/name".
func (s *Snapshot) VirtualServicesAt(gateway string) iter.Seq[*model.VirtualService] {
	return s.virtualServices.by[virtualServicesByGateway].under(join(gateway))
}

// VirtualServicesTo yields the VirtualServices with a route to a host.
func (s *Snapshot) VirtualServicesTo(host model.Host) iter.Seq[*model.VirtualService] {
	return s.virtualServices.by[virtualServicesByDestination].under(join(string(host)))
}

// DestinationRulesOf yields the DestinationRules for exactly this host, which may be a wildcard.
func (s *Snapshot) DestinationRulesOf(host model.Host) iter.Seq[*model.DestinationRule] {
	return s.destinationRules.by[destinationRulesByHost].under(join(string(host)))
}

// PassesThrough reports whether a DestinationRule for a host, or for a wildcard above it, has calls
// go to the address that the caller picked.
func (s *Snapshot) PassesThrough(host model.Host) bool {
	rules := s.destinationRules.by[destinationRulesPassingThrough]
	if rules.len() == 0 {
		return false
	}
	for pattern := range host.Patterns() {
		if _, any := rules.first(join(string(pattern))); any {
			return true
		}
	}
	return false
}

// BackendPolicy returns what BackendTLSPolicies say of calls to a host, nil if they say nothing.
func (s *Snapshot) BackendPolicy(host model.Host) *model.BackendPolicy {
	found, _ := s.backendPolicies.by[backendPoliciesByHost].get(join(string(host)))
	return found
}

// Gateways yields all Gateways.
func (s *Snapshot) Gateways() iter.Seq[*model.Gateway] {
	return s.gateways.by[gatewaysInOrder].under(nil)
}

// HasGatewaysOf reports whether all Gateways are those of another snapshot. It costs nothing: what
// no batch has changed is shared.
func (s *Snapshot) HasGatewaysOf(o *Snapshot) bool {
	return s.gateways.by[gatewaysInOrder].entries.root == o.gateways.by[gatewaysInOrder].entries.root
}

// Gateway finds a Gateway by "namespace/name", nil if there is none.
func (s *Snapshot) Gateway(name string) *model.Gateway {
	found, _ := s.gateways.by[gatewaysByName].get(join(name))
	return found
}

// ForwardingGateways yields the Gateways with AUTO_PASSTHROUGH, which forward by SNI.
func (s *Snapshot) ForwardingGateways() iter.Seq[*model.Gateway] {
	return s.gateways.by[gatewaysForwarding].under(nil)
}

// PresentingGateways yields the Gateways that present a certificate to servers.
func (s *Snapshot) PresentingGateways() iter.Seq[*model.Gateway] {
	return s.gateways.by[gatewaysPresenting].under(nil)
}

// BackendPolicies yields all BackendPolicies.
func (s *Snapshot) BackendPolicies() iter.Seq[*model.BackendPolicy] {
	return s.backendPolicies.by[backendPoliciesByHost].under(nil)
}

// GatewaysWith yields the Gateways that name a credential.
func (s *Snapshot) GatewaysWith(credential string) iter.Seq[*model.Gateway] {
	return s.gateways.by[gatewaysByCredential].under(join(credential))
}

// DestinationRulesWith yields the DestinationRules that name a credential.
func (s *Snapshot) DestinationRulesWith(credential string) iter.Seq[*model.DestinationRule] {
	return s.destinationRules.by[destinationRulesByCredential].under(join(credential))
}

// DestinationRulesWithAny yields the DestinationRules that name credentials, once for each.
func (s *Snapshot) DestinationRulesWithAny() iter.Seq[*model.DestinationRule] {
	return s.destinationRules.by[destinationRulesByCredential].under(nil)
}

// Credential returns the TLS material of a Secret, nil if there is no such Secret or none in it.
func (s *Snapshot) Credential(namespace, name string) *model.Credential {
	if other, plain, qualified := strings.Cut(name, "/"); qualified {
		namespace, name = other, plain
	}
	found, _ := s.credentials.by[credentialsByName].get(join(namespace, name))
	return found
}

// Namespace returns a namespace; nil if there is none, or it is not read.
func (s *Snapshot) Namespace(name string) *model.Namespace {
	n, _ := s.namespaces.by[namespacesByName].get(join(name))
	return n
}

// Sidecars yields the Sidecars of a namespace.
func (s *Snapshot) Sidecars(namespace string) iter.Seq[*model.Sidecar] {
	return s.sidecars.by[sidecarsByNamespace].under(join(namespace))
}

// Workload finds a workload by name, nil if there is none.
func (s *Snapshot) Workload(namespace, name string) *model.Workload {
	return s.workloads.get(podNamed(namespace, name))
}

// WorkloadsOn yields the workloads that run on a node.
func (s *Snapshot) WorkloadsOn(node string) iter.Seq[*model.Workload] {
	return podsOn(s.podsByNode, node)
}

// LocalityOf returns the locality of a workload: its own, else that of its node.
func (s *Snapshot) LocalityOf(workload *model.Workload) model.Locality {
	return s.localityOn(workload.Node, workload.Locality)
}

// localityOn returns own unless it is empty, else the locality of a node.
func (s *Snapshot) localityOn(node string, own model.Locality) model.Locality {
	if own != (model.Locality{}) || node == "" {
		return own
	}
	if n, known := s.nodes.by[nodesByName].get(join(node)); known {
		return n.Locality
	}
	return model.Locality{}
}

// Endpoints returns the endpoints of a service, never nil.
func (s *Snapshot) Endpoints(svc *model.Service) *EndpointSet {
	if set, ok := s.endpoints.get(serviceIDOf(svc).key()); ok {
		return set
	}
	return noEndpoints
}

// SelectorsOf yields the workload selectors that match labels, of Gateways, VirtualServices
// (sourceLabels), DestinationRules, Sidecars, AuthorizationPolicies, PeerAuthentications,
// RequestAuthentications, Telemetries and EnvoyFilters. It may yield one several times in a row. A
// class of proxies keeps nothing of its labels but which of these match.
func (s *Snapshot) SelectorsOf(labels model.Labels) iter.Seq[model.Labels] {
	return func(yield func(model.Labels) bool) {
		key := make([]byte, 0, 128)
		for pair := range labels.Pairs() {
			for l := range s.selectors.under(appendParts(key, pair)) {
				if l.Selects(labels) && !yield(l) {
					return
				}
			}
		}
	}
}

// HasHost reports whether a service or a VirtualService has exactly this host.
func (s *Snapshot) HasHost(host model.Host) bool {
	_, service := s.services.by[servicesByHost].first(join(string(host)))
	_, routes := s.virtualServices.by[virtualServicesByHost].first(join(string(host)))
	return service || routes
}

// Counts are sizes for metrics.
type Counts struct {
	Services, WithoutEndpoints, VirtualServices, Subsets int
	// Limits are the DestinationRules that limit connections.
	Limits int
	// PendingEndpoints are those in EndpointSlices whose Pod is not known.
	PendingEndpoints int
	// UnreadyEndpoints are those in EndpointSlices that are not ready.
	UnreadyEndpoints int
}

// Counts returns the sizes of the snapshot. They are kept up to date, not counted.
func (s *Snapshot) Counts() Counts {
	return Counts{
		Services: s.hosts.len(), WithoutEndpoints: max(
			0, s.services.by[servicesByHost].len()-s.endpoints.len(),
		), VirtualServices: s.virtualServices.by[virtualServicesByName].len(),
		Subsets: s.subsets, Limits: s.pools, PendingEndpoints: s.pendingHosts, UnreadyEndpoints: s.unreadyHosts,
	}
}

// Lookups returns how many index entries have been read so far, in this snapshot and those before
// and after it. Only a NewCountingWriter counts them; else it is 0.
func (s *Snapshot) Lookups() uint64 {
	if s.lookups == nil {
		return 0
	}
	return s.lookups.Load()
}
