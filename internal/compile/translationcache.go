package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/authz"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/name"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/route"
	"github.com/lateen-mesh/lateen/internal/translate/secret"
	"github.com/lateen-mesh/lateen/internal/xds/resource"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
)

// translationCache makes resources. It has one memo per translation, and the interners of the lists
// in their inputs. All classes share it. One goroutine uses it at a time.
type translationCache struct {
	store    *resource.Store
	refusals Refusals

	clusters     *memo[cluster.OutboundInput]
	inbound      *memo[cluster.InboundInput]
	passthrough  *memo[cluster.PassthroughInput]
	assignments  *memo[assignmentKey]
	vhosts       *memo[vhostKey]
	fallbacks    *memo[fallbackKey]
	proxies      *memo[listener.HTTPInput]
	tcp          *memo[listener.TCPInput]
	inbounds     *memo[listener.InboundInput]
	virtualIn    *memo[listener.VirtualInboundInput]
	virtualOut   *memo[listener.VirtualOutboundInput]
	gateways     *memo[listener.GatewayInput]
	certificates *memo[secret.CertificateInput]
	authorities  *memo[secret.AuthoritiesInput]
	filters      *memo[authz.Input]
	nameTables   *memo[name.Input]
	groups       *groups
	authFilters  *authFilterCache
	memos        map[string]anyMemo // all of the above, by the kind of resource

	domains      *model.Interner[string]
	refs         *model.Interner[route.RouteRef]
	facts        *model.Interner[route.DestinationFact]
	endpoints    *model.Interner[model.Endpoint]
	chains       *model.Interner[listener.Chain]
	targets      *model.Interner[listener.WeightedTarget]
	ports        *model.Interner[listener.InboundPort]
	undeclared   *model.Interner[listener.UndeclaredPort]
	services     *model.Interner[cluster.NamedService]
	serverChains *model.Interner[listener.ServerChain]
	names        *model.Interner[string] // of resources that others refer to
	labels       *model.Interner[string] // labels that tell proxies and endpoints apart
	addresses    *model.Interner[string] // that names stand for
	retries      *model.Pool[model.Retries]
	common       *model.Pool[listener.Common]
	mesh         *meshParts

	preferZone, preferNode *model.LocalityLB  // what a Service's trafficDistribution means
	blackHoleCluster       *resource.Resource // BlackHoleCluster, which has no input
	counts                 *Work              // nil unless tests count
	problems               *source.Tally      // the problems that stand, by how many classes see them
	pods                   podNames
}

// assignmentKey is a ClusterLoadAssignment for callers at one place. near has the values of their
// place that prefer depends on.
type assignmentKey struct {
	cluster string
	list    *groupList
	prefer  endpoint.Preference
	near    model.Labels
}

type vhostKey struct {
	table, name string
	in          route.VirtualHostInput
}

// fallbackKey is the virtual host of a table for requests to unknown hosts.
type fallbackKey struct {
	table string
	in    route.FallbackInput
}

func newTranslationCache(store *resource.Store, refusals Refusals) *translationCache {
	tc := &translationCache{
		store:        store,
		refusals:     refusals,
		problems:     source.NewTally(),
		domains:      model.NewInterner[string](),
		refs:         model.NewInterner[route.RouteRef](),
		facts:        model.NewInterner[route.DestinationFact](),
		endpoints:    model.NewInterner[model.Endpoint](),
		chains:       model.NewInterner[listener.Chain](),
		targets:      model.NewInterner[listener.WeightedTarget](),
		ports:        model.NewInterner[listener.InboundPort](),
		undeclared:   model.NewInterner[listener.UndeclaredPort](),
		services:     model.NewInterner[cluster.NamedService](),
		names:        model.NewInterner[string](),
		labels:       model.NewInterner[string](),
		addresses:    model.NewInterner[string](),
		pods:         podNames{known: map[*state.EndpointSet]map[string][]string{}},
		serverChains: model.NewInterner[listener.ServerChain](),
		retries:      model.NewPool[model.Retries](),
		common:       model.NewPool[listener.Common](),
	}
	tc.preferZone = prefersClose(model.RegionLabel, model.ZoneLabel, model.SubzoneLabel)
	tc.preferNode = prefersClose(model.RegionLabel, model.ZoneLabel, model.SubzoneLabel, model.HostnameLabel)
	tc.groups = newGroups(tc)
	tc.authFilters = newAuthFilterCache()
	tc.clusterMemos()
	tc.routeMemos()
	tc.listenerMemos()
	tc.secretMemos()
	tc.filters = newMemo(tc.store, func(in authz.Input) *resource.Resource {
		return tc.encode(policyFilters, authz.Resource(policyFilters, in))
	})
	tc.memos = tc.allMemos()
	return tc
}

func (tc *translationCache) clusterMemos() {
	tc.clusters = newMemo(tc.store, func(in cluster.OutboundInput) *resource.Resource {
		m := cluster.Outbound(in)
		return tc.encodeWith(m.GetName(), m, resource.Traits{EDS: m.GetType() == clusterv3.Cluster_EDS})
	})
	tc.inbound = newMemo(tc.store, func(in cluster.InboundInput) *resource.Resource {
		m := cluster.Inbound(in)
		return tc.encodeOwn(m.GetName(), m)
	})
	tc.passthrough = newMemo(tc.store, func(in cluster.PassthroughInput) *resource.Resource {
		m := cluster.Passthrough(in)
		return tc.encode(m.GetName(), m)
	})
	tc.assignments = newMemo(tc.store, assemble)
	tc.assignments.onMiss = tc.groups.recordAssignment
}

// assemble makes a ClusterLoadAssignment of shared endpoint sets.
func assemble(k assignmentKey) *resource.Resource {
	sites := make([]endpoint.Site, len(k.list.sites))
	for i, l := range k.list.sites {
		sites[i] = endpoint.Site{Locality: l.locality, Marks: l.marks, Weight: l.weight}
	}
	var list []resource.Group
	for i, share := range k.prefer.Spread(sites, k.near) {
		if share.LeftOut {
			continue
		}
		in := endpoint.GroupInput{Locality: sites[i].Locality, Priority: share.Priority, Weight: share.Weight}
		head, err := pb.Marshal(endpoint.Group(in))
		if err != nil {
			continue
		}
		list = append(list, resource.Group{Head: head, Members: k.list.sites[i].members})
	}
	head, err := pb.Marshal(endpoint.Assignment(endpoint.AssignmentInput{Cluster: k.cluster}))
	if err != nil {
		head = nil
	}
	return resource.NewAssignment(k.cluster, head, list)
}

func (tc *translationCache) routeMemos() {
	tc.vhosts = newMemo(tc.store, func(k vhostKey) *resource.Resource {
		return tc.encodeVirtualHost(k.table, k.name, route.VirtualHost(k.in), k.in.Domains)
	})
	tc.fallbacks = newMemo(tc.store, func(k fallbackKey) *resource.Resource {
		name := "allow_any"
		if k.in.RegistryOnly {
			name = "block_all"
		}
		return tc.encodeVirtualHost(k.table, name, route.Fallback(k.in), tc.domains.List([]string{"*"}))
	})
}

func (tc *translationCache) listenerMemos() {
	tc.proxies = newMemo(tc.store, func(in listener.HTTPInput) *resource.Resource {
		return tc.encodeOwn(in.Name, listener.HTTP(in))
	})
	tc.tcp = newMemo(tc.store, func(in listener.TCPInput) *resource.Resource {
		return tc.encodeOwn(in.Name, listener.TCP(in))
	})
	tc.inbounds = newMemo(tc.store, func(in listener.InboundInput) *resource.Resource {
		return tc.encodeOwn(in.Name, listener.Inbound(in))
	})
	tc.virtualIn = newMemo(tc.store, func(in listener.VirtualInboundInput) *resource.Resource {
		return tc.encode(listener.VirtualInboundName, listener.VirtualInbound(in))
	})
	tc.virtualOut = newMemo(tc.store, func(in listener.VirtualOutboundInput) *resource.Resource {
		return tc.encode(listener.VirtualOutboundName, listener.VirtualOutbound(in))
	})
	tc.gateways = newMemo(tc.store, func(in listener.GatewayInput) *resource.Resource {
		return tc.encodeOwn(in.Name, listener.Gateway(in))
	})
}

func (tc *translationCache) secretMemos() {
	tc.certificates = newMemo(tc.store, func(in secret.CertificateInput) *resource.Resource {
		return tc.encode(in.Name, secret.Certificate(in))
	})
	tc.authorities = newMemo(tc.store, func(in secret.AuthoritiesInput) *resource.Resource {
		return tc.encode(in.Name, secret.Authorities(in))
	})
	tc.nameTables = newMemo(tc.store, func(in name.Input) *resource.Resource {
		return resource.New(string(in.Host), name.Table(in))
	})
}

func (tc *translationCache) blackHole() *resource.Resource {
	if tc.blackHoleCluster == nil {
		m := cluster.BlackHole()
		tc.blackHoleCluster = tc.encode(m.GetName(), m)
	}
	return tc.blackHoleCluster
}

// meshPartsOf caches the canonical parts of a mesh configuration, which hardly ever changes.
func (tc *translationCache) meshPartsOf(m *model.MeshConfig) *meshParts {
	if tc.mesh == nil || tc.mesh.config != m {
		tc.mesh = &meshParts{
			config:  m,
			retries: tc.retries.Canonical(m.Retries),
			pool:    tc.common,
			common:  map[commonKey]*listener.Common{},
		}
	}
	return tc.mesh
}

// meshParts are the parts of a mesh configuration that stand in inputs.
type meshParts struct {
	config  *model.MeshConfig
	retries *model.Retries
	pool    *model.Pool[listener.Common]
	common  map[commonKey]*listener.Common
}

func (tc *translationCache) allMemos() map[string]anyMemo {
	return map[string]anyMemo{
		"cluster":                   tc.clusters,
		"cluster_inbound":           tc.inbound,
		"cluster_passthrough":       tc.passthrough,
		"assignment":                tc.assignments,
		"endpoint":                  tc.groups.members,
		"virtualhost":               tc.vhosts,
		"fallback":                  tc.fallbacks,
		"listener_http":             tc.proxies,
		"listener_tcp":              tc.tcp,
		"listener_inbound":          tc.inbounds,
		"listener_virtual_inbound":  tc.virtualIn,
		"listener_virtual_outbound": tc.virtualOut,
		"listener_gateway":          tc.gateways,
		"secret_certificate":        tc.certificates,
		"secret_authorities":        tc.authorities,
		"name":                      tc.nameTables,
		"policies":                  tc.filters,
	}
}

// stats returns what each kind of translation did.
func (tc *translationCache) stats() map[string]TranslateStats {
	all := map[string]TranslateStats{}
	for kind, m := range tc.memos {
		all[kind] = m.counts()
	}
	return all
}

// size returns how many translations are remembered.
func (tc *translationCache) size() int {
	total := 0
	for _, m := range tc.memos {
		total += m.len()
	}
	return total
}

// sweep forgets all translations whose resources are not live, and the groups of endpoints that
// nothing else holds.
func (tc *translationCache) sweep(live *resource.Live, held map[*groupList]bool) {
	for _, m := range tc.memos {
		m.sweep(live)
	}
	tc.groups.sweep(tc.assignments.results, held)
	tc.authFilters.sweep()
}
