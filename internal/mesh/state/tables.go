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
	servicesCalledByPod                               // host, namespace, entry
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
	rootRoutesByName     column[model.RootRoutes] = iota // namespace, name
	rootRoutesByDelegate                                 // namespace and name of a delegate, namespace, name
)

const (
	destinationRulesByHost         column[model.DestinationRule] = iota // host, order
	destinationRulesByCredential                                        // credential, order
	destinationRulesPassingThrough                                      // host, order; of those with PASSTHROUGH
	destinationRulesByDifference                                        // see difference.go
)

const (
	gatewaysInOrder      column[model.Gateway] = iota // order
	gatewaysByName                                    // "namespace/name"
	gatewaysByCredential                              // credential, order
	gatewaysForwarding                                // order; of those that forward
	gatewaysPresenting                                // order; of those that present a certificate
)

const (
	authorizationPoliciesByNamespace column[model.AuthorizationPolicy] = iota // namespace, order
	authorizationPoliciesBySelector                                           // namespace, selector, order
)

const (
	peerAuthenticationsByNamespace column[model.PeerAuthentication] = iota // namespace, order
	peerAuthenticationsDisabling                                           // namespace, order; of those that disable
	peerAuthenticationsBySelector                                          // namespace, selector, order
)

const (
	requestAuthenticationsByNamespace column[model.RequestAuthentication] = iota // namespace, order
	requestAuthenticationsByKeySet                                               // URI, order
	requestAuthenticationsBySelector                                             // namespace, selector, order
)

const (
	telemetriesByNamespace column[model.Telemetry] = iota // namespace, order
	telemetriesByTracer                                   // host, order
	telemetriesBySelector                                 // namespace, selector, order
)

const (
	envoyFiltersBySelector column[model.EnvoyFilter] = iota // namespace, selector, order
	envoyFiltersByProxy                                     // namespace, order; those that match proxies
	envoyFiltersByCall                                      // host, order
)

const (
	sidecarsByNamespace     column[model.Sidecar]     = 0 // namespace, order
	keySetsByURI            column[model.KeySet]      = 0 // URI
	credentialsByName       column[model.Credential]  = 0 // namespace, name
	nodesByName             column[model.Node]        = 0 // name
	proxyConfigsByNamespace column[model.ProxyConfig] = 0 // namespace, order
)

const (
	workloadEntriesByName    column[model.WorkloadEntry] = iota // namespace, name
	workloadEntriesByAddress                                    // namespace, address, name
	workloadEntriesNamed                                        // namespace, name
)

const (
	slicesByPod  column[model.EndpointSlice] = iota // namespace, pod, slice
	slicesByNode                                    // node, namespace, slice
)

const (
	kubernetesGatewaysByName    column[model.KubernetesGateway] = iota // namespace, name
	kubernetesGatewaysByClass                                          // class, order
	kubernetesGatewaysByService                                        // host, order
	kubernetesGatewaysBySecret                                         // namespace and name of a Secret, order
	kubernetesGatewaysByForeign                                        // another namespace with a Secret, order
	kubernetesGatewaysByBundle                                         // namespace and name of a ConfigMap, order
)

const (
	listenerSetsByName    column[model.ListenerSet] = iota // namespace, name
	listenerSetsByParent                                   // namespace and name of a Gateway, order
	listenerSetsBySecret                                   // namespace and name of a Secret, order
	listenerSetsByForeign                                  // another namespace with a Secret, order
)

const (
	attachedRoutesByName        column[model.AttachedRoute] = iota // namespace, kind, name
	attachedRoutesByParent                                         // namespace and name of a Gateway, order, kind
	attachedRoutesByDestination                                    // host, order, kind
	attachedRoutesByForeign                                        // another namespace with a Service, order, kind
	attachedRoutesByService                                        // host of a parent, order, kind
	attachedRoutesByListenerSet                                    // namespace and name of a ListenerSet, order, kind
)

const (
	backendTLSPoliciesByName   column[model.BackendTLSPolicy] = iota // namespace, name
	backendTLSPoliciesByTarget                                       // host, order
	backendTLSPoliciesByBundle                                       // namespace and name of a ConfigMap, order
)

const (
	gatewayClassesByName       column[model.GatewayClass]      = 0 // name
	referenceGrantsByNamespace column[model.ReferenceGrant]    = 0 // namespace, order
	namespacesByName           column[model.Namespace]         = 0 // name
	gatewayAPIStatusesByObject column[model.GatewayAPIStatus]  = 0 // kind, namespace, name
	certificateBundlesByName   column[model.CertificateBundle] = 0 // namespace, name
	servedGatewaysByName       column[model.ServedGateway]     = 0 // namespace, name
	backendPoliciesByHost      column[model.BackendPolicy]     = 0 // host
	delegateRoutesByName       column[model.DelegateRoutes]    = 0 // namespace, name
	delegationStatusesByName   column[model.DelegationStatus]  = 0 // namespace, name
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
			servicesByEndpoint: endpointKeys,
			servicesCalledByPod: filtered((*model.Service).IsCalledByPod, func(svc *model.Service) []byte {
				return serviceIDOf(svc).key()
			}),
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
	declare(schema[model.RootRoutes]{
		table: func(s *Snapshot) *table[model.RootRoutes] { return &s.rootRoutes },
		indexes: []keysOf[model.RootRoutes]{
			rootRoutesByName:     single(func(r *model.RootRoutes) []byte { return join(r.Namespace, r.Name) }),
			rootRoutesByDelegate: rootDelegateKeys,
		},
		special: swapRoot,
	}),
	declare(schema[model.DelegateRoutes]{
		table: func(s *Snapshot) *table[model.DelegateRoutes] { return &s.delegateRoutes },
		indexes: []keysOf[model.DelegateRoutes]{
			delegateRoutesByName: single(func(d *model.DelegateRoutes) []byte { return join(d.Namespace, d.Name) }),
		},
		special: swapDelegate,
	}),
	declare(schema[model.DelegationStatus]{
		table:   func(s *Snapshot) *table[model.DelegationStatus] { return &s.delegationStatuses },
		changes: func(d *Delta) *[]Pair[model.DelegationStatus] { return &d.Delegations },
		indexes: []keysOf[model.DelegationStatus]{
			delegationStatusesByName: single(
				func(s *model.DelegationStatus) []byte { return join(s.Namespace, s.Name) },
			),
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
			destinationRulesPassingThrough: filtered((*model.DestinationRule).PassesThrough,
				func(r *model.DestinationRule) []byte { return ordered(join(string(r.Host)), &r.Meta, "") },
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
			gatewaysPresenting: filtered(
				func(g *model.Gateway) bool { return g.Presents != "" },
				func(g *model.Gateway) []byte { return ordered(nil, &g.Meta, "") },
			),
		},
		selectors: gatewaySelectors,
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
			authorizationPoliciesBySelector: perSelector(authorizationSelection),
		},
		selectors: selectsAny(authorizationSelection),
	}),
	declare(schema[model.PeerAuthentication]{
		table:   func(s *Snapshot) *table[model.PeerAuthentication] { return &s.peerAuthentications },
		changes: func(d *Delta) *[]Pair[model.PeerAuthentication] { return &d.PeerAuthentications },
		indexes: []keysOf[model.PeerAuthentication]{
			peerAuthenticationsByNamespace: single(peerAuthenticationKey),
			peerAuthenticationsDisabling:   filtered(disablesMTLS, peerAuthenticationKey),
			peerAuthenticationsBySelector: single(func(p *model.PeerAuthentication) []byte {
				return ordered(join(p.Namespace, p.Selector.String()), &p.Meta, "")
			}),
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
			requestAuthenticationsBySelector: perSelector(tokenSelection),
		},
		selectors: selectsAny(tokenSelection),
	}),
	declare(schema[model.Telemetry]{
		table:   func(s *Snapshot) *table[model.Telemetry] { return &s.telemetries },
		changes: func(d *Delta) *[]Pair[model.Telemetry] { return &d.Telemetries },
		indexes: []keysOf[model.Telemetry]{
			telemetriesByNamespace: single(
				func(t *model.Telemetry) []byte { return ordered(join(t.Namespace), &t.Meta, "") },
			),
			telemetriesByTracer: perName(
				func(t *model.Telemetry) *model.Meta { return &t.Meta }, (*model.Telemetry).TracerHosts,
			),
			telemetriesBySelector: perSelector(telemetrySelection),
		},
		selectors: selectsAny(telemetrySelection),
	}),
	declare(schema[model.EnvoyFilter]{
		table:   func(s *Snapshot) *table[model.EnvoyFilter] { return &s.envoyFilters },
		changes: func(d *Delta) *[]Pair[model.EnvoyFilter] { return &d.EnvoyFilters },
		indexes: []keysOf[model.EnvoyFilter]{
			envoyFiltersBySelector: perSelector(envoyFilterSelection),
			envoyFiltersByProxy: filtered(
				func(f *model.EnvoyFilter) bool { return len(f.ProxyMatches()) > 0 },
				func(f *model.EnvoyFilter) []byte { return ordered(join(f.Namespace), &f.Meta, "") },
			),
			envoyFiltersByCall: perName(
				func(f *model.EnvoyFilter) *model.Meta { return &f.Meta },
				func(f *model.EnvoyFilter) []model.Host { return f.Calls },
			),
		},
		selectors: selectsAny(envoyFilterSelection),
	}),
	declare(schema[model.ProxyConfig]{ // without selectors: no class depends on it
		table:   func(s *Snapshot) *table[model.ProxyConfig] { return &s.proxyConfigs },
		changes: func(d *Delta) *[]Pair[model.ProxyConfig] { return &d.ProxyConfigs },
		indexes: []keysOf[model.ProxyConfig]{
			proxyConfigsByNamespace: single(
				func(c *model.ProxyConfig) []byte { return ordered(join(c.Namespace), &c.Meta, "") },
			),
		},
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
			workloadEntriesNamed: filtered((*model.WorkloadEntry).IsNamed, func(e *model.WorkloadEntry) []byte {
				return join(e.Namespace, e.Name)
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
	declare(schema[model.GatewayClass]{
		table: func(s *Snapshot) *table[model.GatewayClass] { return &s.gatewayClasses },
		indexes: []keysOf[model.GatewayClass]{
			gatewayClassesByName: single(func(c *model.GatewayClass) []byte { return join(c.Name) }),
		},
		special: noting(func(b *batch) *[]Pair[model.GatewayClass] { return &b.attach.classes }),
	}),
	declare(schema[model.KubernetesGateway]{
		table: func(s *Snapshot) *table[model.KubernetesGateway] { return &s.kubernetesGateways },
		indexes: []keysOf[model.KubernetesGateway]{
			kubernetesGatewaysByName: single(
				func(g *model.KubernetesGateway) []byte { return join(g.Namespace, g.Name) },
			),
			kubernetesGatewaysByClass: single(
				func(g *model.KubernetesGateway) []byte { return ordered(join(g.Class), &g.Meta, "") },
			),
			kubernetesGatewaysByService: filtered(
				func(g *model.KubernetesGateway) bool { return g.Service != "" },
				func(g *model.KubernetesGateway) []byte { return ordered(join(string(g.Service)), &g.Meta, "") },
			),
			kubernetesGatewaysBySecret:  gatewaySecretKeys,
			kubernetesGatewaysByForeign: gatewayForeignKeys,
			kubernetesGatewaysByBundle:  gatewayBundleKeys,
		},
		special: noting(func(b *batch) *[]Pair[model.KubernetesGateway] { return &b.attach.gateways }),
	}),
	declare(schema[model.AttachedRoute]{
		table: func(s *Snapshot) *table[model.AttachedRoute] { return &s.attachedRoutes },
		indexes: []keysOf[model.AttachedRoute]{
			attachedRoutesByName: single(
				func(r *model.AttachedRoute) []byte { return join(r.Namespace, string(r.Kind), r.Name) },
			),
			attachedRoutesByParent:      routeParentKeys,
			attachedRoutesByDestination: routeDestinationKeys,
			attachedRoutesByForeign:     routeForeignKeys,
			attachedRoutesByService:     routeServiceKeys,
			attachedRoutesByListenerSet: routeSetKeys,
		},
		special: noting(func(b *batch) *[]Pair[model.AttachedRoute] { return &b.attach.routes }),
	}),
	declare(schema[model.ListenerSet]{
		table: func(s *Snapshot) *table[model.ListenerSet] { return &s.listenerSets },
		indexes: []keysOf[model.ListenerSet]{
			listenerSetsByName: single(func(l *model.ListenerSet) []byte { return join(l.Namespace, l.Name) }),
			listenerSetsByParent: single(func(l *model.ListenerSet) []byte {
				return ordered(join(l.Parent.Namespace, l.Parent.Name), &l.Meta, "")
			}),
			listenerSetsBySecret:  setSecretKeys,
			listenerSetsByForeign: setForeignKeys,
		},
		special: noting(func(b *batch) *[]Pair[model.ListenerSet] { return &b.attach.sets }),
	}),
	declare(schema[model.ServedGateway]{
		table: func(s *Snapshot) *table[model.ServedGateway] { return &s.servedGateways },
		indexes: []keysOf[model.ServedGateway]{
			servedGatewaysByName: single(func(g *model.ServedGateway) []byte { return join(g.Namespace, g.Name) }),
		},
	}),
	declare(schema[model.ReferenceGrant]{
		table: func(s *Snapshot) *table[model.ReferenceGrant] { return &s.referenceGrants },
		indexes: []keysOf[model.ReferenceGrant]{
			referenceGrantsByNamespace: single(
				func(g *model.ReferenceGrant) []byte { return ordered(join(g.Namespace), &g.Meta, "") },
			),
		},
		special: noting(func(b *batch) *[]Pair[model.ReferenceGrant] { return &b.attach.grants }),
	}),
	declare(schema[model.Namespace]{
		table: func(s *Snapshot) *table[model.Namespace] { return &s.namespaces },
		indexes: []keysOf[model.Namespace]{
			namespacesByName: single(func(n *model.Namespace) []byte { return join(n.Name) }),
		},
		special: noting(func(b *batch) *[]Pair[model.Namespace] { return &b.attach.namespaces }),
	}),
	declare(schema[model.BackendTLSPolicy]{
		table: func(s *Snapshot) *table[model.BackendTLSPolicy] { return &s.backendTLSPolicies },
		indexes: []keysOf[model.BackendTLSPolicy]{
			backendTLSPoliciesByName: single(
				func(p *model.BackendTLSPolicy) []byte { return join(p.Namespace, p.Name) },
			),
			backendTLSPoliciesByTarget: perName(backendTLSMeta, targetHosts),
			backendTLSPoliciesByBundle: backendBundleKeys,
		},
		special: noting(func(b *batch) *[]Pair[model.BackendTLSPolicy] { return &b.attach.backendTLS }),
	}),
	declare(schema[model.CertificateBundle]{
		table: func(s *Snapshot) *table[model.CertificateBundle] { return &s.certificateBundles },
		indexes: []keysOf[model.CertificateBundle]{
			certificateBundlesByName: single(
				func(b *model.CertificateBundle) []byte { return join(b.Namespace, b.Name) },
			),
		},
		special: noting(func(b *batch) *[]Pair[model.CertificateBundle] { return &b.attach.bundles }),
	}),
	declare(schema[model.BackendPolicy]{
		table:   func(s *Snapshot) *table[model.BackendPolicy] { return &s.backendPolicies },
		changes: func(d *Delta) *[]Pair[model.BackendPolicy] { return &d.BackendPolicies },
		indexes: []keysOf[model.BackendPolicy]{
			backendPoliciesByHost: single(func(p *model.BackendPolicy) []byte { return join(string(p.Host)) }),
		},
	}),
	declare(schema[model.GatewayAPIStatus]{
		table:   func(s *Snapshot) *table[model.GatewayAPIStatus] { return &s.gatewayAPIStatuses },
		changes: func(d *Delta) *[]Pair[model.GatewayAPIStatus] { return &d.GatewayAPIStatuses },
		indexes: []keysOf[model.GatewayAPIStatus]{
			gatewayAPIStatusesByObject: single(
				func(s *model.GatewayAPIStatus) []byte { return join(string(s.Kind), s.Namespace, s.Name) },
			),
		},
	}),
}
