package state

import "github.com/lateen-mesh/lateen/internal/api/model"

// The indexes of each table. The comments give the parts of the keys; "order" is the place in
// model.Meta.Compare.
const (
	servicesByHost       column[model.Service] = iota // host, order
	servicesByNamespace                               // namespace, host, order
	servicesByPort                                    // port, kind of protocol, order
	servicesByVIP                                     // address, port, order
	servicesByPortMatch                               // port, kind of connection, order
	servicesBySelector                                // namespace, first pair of the selector, order
	servicesByAlias                                   // host that they are another name of, order
	servicesByEndpoint                                // namespace, address of a listed endpoint, order
	servicesByDifference                              // see difference.go
)

const (
	virtualServicesByName        column[model.VirtualService] = iota // namespace, name
	virtualServicesByHost                                            // host, order
	virtualServicesByGateway                                         // gateway, order
	virtualServicesByDestination                                     // destination host, order
	virtualServicesByDifference                                      // see difference.go
)

const (
	destinationRulesByHost       column[model.DestinationRule] = iota // host, order
	destinationRulesByCredential                                      // credential, order
	destinationRulesByDifference                                      // see difference.go
)

const (
	gatewaysInOrder      column[model.Gateway] = iota // order
	gatewaysByName                                    // "namespace/name"
	gatewaysByCredential                              // credential, order
	gatewaysForwarding                                // order; of those that forward
)

const (
	peerAuthenticationsByNamespace column[model.PeerAuthentication] = iota // namespace, order
	peerAuthenticationsDisabling                                           // namespace, order; of those that disable
)

const (
	requestAuthenticationsByNamespace column[model.RequestAuthentication] = iota // namespace, order
	requestAuthenticationsByKeySet                                               // URI, order
)

const (
	sidecarsByNamespace              column[model.Sidecar]             = 0 // namespace, order
	authorizationPoliciesByNamespace column[model.AuthorizationPolicy] = 0 // namespace, order
	keySetsByURI                     column[model.KeySet]              = 0 // URI
	credentialsByName                column[model.Credential]          = 0 // namespace, name
	nodesByName                      column[model.Node]                = 0 // name
)

const (
	workloadEntriesByName    column[model.WorkloadEntry] = iota // namespace, name
	workloadEntriesByAddress                                    // namespace, address, name
)

const (
	slicesByPod  column[model.EndpointSlice] = iota // namespace, pod, slice
	slicesByNode                                    // node, namespace, slice
)

// tables are the model objects that a Snapshot keeps. A new type has a line here, a field in
// Snapshot and one in Delta.
var tables = []anyTable{
	declare(schema[model.Service]{
		table:   func(s *Snapshot) *table[model.Service] { return &s.services },
		changes: func(d *Delta) *[]Pair[model.Service] { return &d.Services },
		special: swapHosts,
		indexes: []keysOf[model.Service]{
			servicesByHost: single(
				func(svc *model.Service) []byte { return ordered(join(string(svc.Host)), &svc.Meta, "") },
			),
			servicesByNamespace: single(func(svc *model.Service) []byte {
				return ordered(join(svc.Namespace, string(svc.Host)), &svc.Meta, "")
			}),
			servicesByPort:      portKeys,
			servicesByVIP:       vipKeys,
			servicesByPortMatch: portMatchKeys,
			servicesBySelector:  filtered(selectsPods, selectingKey),
			servicesByAlias: filtered((*model.Service).IsAlias, func(svc *model.Service) []byte {
				return ordered(join(string(svc.AliasOf)), &svc.Meta, "")
			}),
			servicesByEndpoint:   endpointKeys,
			servicesByDifference: serviceDifferenceKeys,
		},
	}),
	declare(schema[model.VirtualService]{
		table:   func(s *Snapshot) *table[model.VirtualService] { return &s.virtualServices },
		changes: func(d *Delta) *[]Pair[model.VirtualService] { return &d.VirtualServices },
		indexes: []keysOf[model.VirtualService]{
			virtualServicesByName: single(func(v *model.VirtualService) []byte { return join(v.Namespace, v.Name) }),
			virtualServicesByHost: perName(
				virtualServiceMeta, func(v *model.VirtualService) []model.Host { return v.Hosts },
			),
			virtualServicesByGateway:     perName(virtualServiceMeta, gatewaysOf),
			virtualServicesByDestination: perName(virtualServiceMeta, DestinationHosts),
			virtualServicesByDifference:  virtualServiceDifferenceKeys,
		},
		selectors: func(all []selector, v *model.VirtualService) []selector {
			for _, l := range sourceSelectors(v) {
				all = append(all, selector{l, &v.Meta})
			}
			return all
		},
	}),
	declare(schema[model.DestinationRule]{
		table:   func(s *Snapshot) *table[model.DestinationRule] { return &s.destinationRules },
		changes: func(d *Delta) *[]Pair[model.DestinationRule] { return &d.DestinationRules },
		special: countSubsets,
		indexes: []keysOf[model.DestinationRule]{
			destinationRulesByHost: single(
				func(r *model.DestinationRule) []byte { return ordered(join(string(r.Host)), &r.Meta, "") },
			),
			destinationRulesByCredential: perName(
				func(r *model.DestinationRule) *model.Meta { return &r.Meta }, (*model.DestinationRule).Credentials,
			),
			destinationRulesByDifference: destinationRuleDifferenceKeys,
		},
		selectors: selects(func(r *model.DestinationRule) (model.Labels, *model.Meta) { return r.Selector, &r.Meta }),
	}),
	declare(schema[model.Gateway]{
		table:   func(s *Snapshot) *table[model.Gateway] { return &s.gateways },
		changes: func(d *Delta) *[]Pair[model.Gateway] { return &d.Gateways },
		indexes: []keysOf[model.Gateway]{
			gatewaysInOrder: single(func(g *model.Gateway) []byte { return ordered(nil, &g.Meta, "") }),
			gatewaysByName:  single(func(g *model.Gateway) []byte { return join(g.Namespace + "/" + g.Name) }),
			gatewaysByCredential: perName(
				func(g *model.Gateway) *model.Meta { return &g.Meta },
				(*model.Gateway).Credentials,
			),
			gatewaysForwarding: filtered(
				(*model.Gateway).ForwardsAny, func(g *model.Gateway) []byte { return ordered(nil, &g.Meta, "") },
			),
		},
		selectors: selects(func(g *model.Gateway) (model.Labels, *model.Meta) { return g.Selector, &g.Meta }),
	}),
	declare(schema[model.Sidecar]{
		table:   func(s *Snapshot) *table[model.Sidecar] { return &s.sidecars },
		changes: func(d *Delta) *[]Pair[model.Sidecar] { return &d.Sidecars },
		indexes: []keysOf[model.Sidecar]{
			sidecarsByNamespace: single(
				func(s *model.Sidecar) []byte { return ordered(join(s.Namespace), &s.Meta, "") },
			),
		},
		selectors: selects(func(s *model.Sidecar) (model.Labels, *model.Meta) { return s.Selector, &s.Meta }),
	}),
	declare(schema[model.AuthorizationPolicy]{
		table:   func(s *Snapshot) *table[model.AuthorizationPolicy] { return &s.authorizationPolicies },
		changes: func(d *Delta) *[]Pair[model.AuthorizationPolicy] { return &d.AuthorizationPolicies },
		indexes: []keysOf[model.AuthorizationPolicy]{
			authorizationPoliciesByNamespace: single(func(p *model.AuthorizationPolicy) []byte {
				return ordered(join(p.Namespace), &p.Meta, "")
			}),
		},
		selectors: selects(
			func(p *model.AuthorizationPolicy) (model.Labels, *model.Meta) { return p.Selector, &p.Meta },
		),
	}),
	declare(schema[model.PeerAuthentication]{
		table:   func(s *Snapshot) *table[model.PeerAuthentication] { return &s.peerAuthentications },
		changes: func(d *Delta) *[]Pair[model.PeerAuthentication] { return &d.PeerAuthentications },
		indexes: []keysOf[model.PeerAuthentication]{
			peerAuthenticationsByNamespace: single(peerAuthenticationKey),
			peerAuthenticationsDisabling:   filtered(disablesMTLS, peerAuthenticationKey),
		},
		selectors: selects(
			func(p *model.PeerAuthentication) (model.Labels, *model.Meta) { return p.Selector, &p.Meta },
		),
	}),
	declare(schema[model.RequestAuthentication]{
		table:   func(s *Snapshot) *table[model.RequestAuthentication] { return &s.requestAuthentications },
		changes: func(d *Delta) *[]Pair[model.RequestAuthentication] { return &d.RequestAuthentications },
		indexes: []keysOf[model.RequestAuthentication]{
			requestAuthenticationsByNamespace: single(func(a *model.RequestAuthentication) []byte {
				return ordered(join(a.Namespace), &a.Meta, "")
			}),
			requestAuthenticationsByKeySet: perName(
				func(a *model.RequestAuthentication) *model.Meta { return &a.Meta },
				(*model.RequestAuthentication).KeySets,
			),
		},
		selectors: selects(
			func(a *model.RequestAuthentication) (model.Labels, *model.Meta) { return a.Selector, &a.Meta },
		),
	}),
	declare(schema[model.KeySet]{
		table:   func(s *Snapshot) *table[model.KeySet] { return &s.keySets },
		changes: func(d *Delta) *[]Pair[model.KeySet] { return &d.KeySets },
		indexes: []keysOf[model.KeySet]{
			keySetsByURI: single(func(k *model.KeySet) []byte { return join(k.URI) }),
		},
	}),
	declare(schema[model.Credential]{
		table:   func(s *Snapshot) *table[model.Credential] { return &s.credentials },
		changes: func(d *Delta) *[]Pair[model.Credential] { return &d.Credentials },
		indexes: []keysOf[model.Credential]{
			credentialsByName: single(func(c *model.Credential) []byte { return join(c.Namespace, c.Name) }),
		},
	}),
	declare(schema[model.Node]{
		table:   func(s *Snapshot) *table[model.Node] { return &s.nodes },
		changes: func(d *Delta) *[]Pair[model.Node] { return &d.Nodes },
		indexes: []keysOf[model.Node]{
			nodesByName: single(func(n *model.Node) []byte { return join(n.Name) }),
		},
	}),
	declare(schema[model.WorkloadEntry]{
		table:   func(s *Snapshot) *table[model.WorkloadEntry] { return &s.workloadEntries },
		changes: func(d *Delta) *[]Pair[model.WorkloadEntry] { return &d.WorkloadEntries },
		indexes: []keysOf[model.WorkloadEntry]{
			workloadEntriesByName: single(func(e *model.WorkloadEntry) []byte { return join(e.Namespace, e.Name) }),
			workloadEntriesByAddress: single(func(e *model.WorkloadEntry) []byte {
				return join(e.Namespace, e.Address, e.Name)
			}),
		},
	}),
	declare(schema[model.Workload]{
		changes: func(d *Delta) *[]Pair[model.Workload] { return &d.Workloads },
		special: swapWorkload,
	}),
	declare(schema[model.EndpointSlice]{
		table:   func(s *Snapshot) *table[model.EndpointSlice] { return &s.slices },
		indexes: []keysOf[model.EndpointSlice]{slicesByPod: slicePodKeys, slicesByNode: sliceNodeKeys},
		special: swapSlice,
	}),
}
