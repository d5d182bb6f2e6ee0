package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/route"
	"github.com/lateen-mesh/lateen/internal/translate/secret"
	"github.com/lateen-mesh/lateen/internal/xds/resource"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
)

// workshop is where resources are made: one memo per translation, and the interners of the lists in their inputs. All
// classes share it. It is used by one goroutine.
type workshop struct {
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
	groups       *groups
	memos        map[string]remembering // all of them, by the kind of what they make

	domains   *model.Interner[string]
	refs      *model.Interner[route.RouteRef]
	facts     *model.Interner[route.DestinationFact]
	endpoints *model.Interner[model.Endpoint]
	chains    *model.Interner[listener.Chain]
	targets   *model.Interner[listener.WeightedTarget]
	ports     *model.Interner[listener.InboundPort]
	doors     *model.Interner[listener.Door]
	names     *model.Interner[string] // that resources refer to
	labels    *model.Interner[string] // by which proxies and endpoints are told apart
	retries   *model.Pool[model.Retries]
	common    *model.Pool[listener.Common]
	mesh      *meshParts

	preferZone, preferNode *model.LocalityLB  // what a Service's trafficDistribution means
	hole                   *resource.Resource // BlackHoleCluster, which has no input
	work                   Work
	conflicts              *source.Tally // how many classes see each
}

// assignmentKey is a ClusterLoadAssignment as callers of one place see it: near has what of their place the preference asks for.
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

// fallbackKey is the virtual host of a table for requests to hosts that nobody has.
type fallbackKey struct {
	table string
	in    route.FallbackInput
}

func newWorkshop(store *resource.Store, refusals Refusals) *workshop {
	w := &workshop{
		store: store, refusals: refusals, conflicts: source.NewTally(),
		domains: model.NewInterner[string](), refs: model.NewInterner[route.RouteRef](), facts: model.NewInterner[route.DestinationFact](),
		endpoints: model.NewInterner[model.Endpoint](), chains: model.NewInterner[listener.Chain](), targets: model.NewInterner[listener.WeightedTarget](), ports: model.NewInterner[listener.InboundPort](), names: model.NewInterner[string](), labels: model.NewInterner[string](),
		doors:   model.NewInterner[listener.Door](),
		retries: model.NewPool[model.Retries](), common: model.NewPool[listener.Common](),
	}
	w.preferZone = prefersClose(model.RegionLabel, model.ZoneLabel, model.SubzoneLabel)
	w.preferNode = prefersClose(model.RegionLabel, model.ZoneLabel, model.SubzoneLabel, model.HostnameLabel)
	w.groups = newGroups(w)
	w.clusterMemos()
	w.routeMemos()
	w.listenerMemos()
	w.secretMemos()
	w.memos = w.allMemos()
	return w
}

func (w *workshop) clusterMemos() {
	w.clusters = newMemo(w.store, func(in cluster.OutboundInput) *resource.Resource {
		m := cluster.Outbound(in)
		return w.encodeWith(m.GetName(), m, resource.Traits{EDS: m.GetType() == clusterv3.Cluster_EDS})
	})
	w.inbound = newMemo(w.store, func(in cluster.InboundInput) *resource.Resource {
		m := cluster.Inbound(in)
		return w.encodeOwn(m.GetName(), m)
	})
	w.passthrough = newMemo(w.store, func(in cluster.PassthroughInput) *resource.Resource {
		m := cluster.Passthrough(in)
		return w.encode(m.GetName(), m)
	})
	w.assignments = newMemo(w.store, assemble)
	w.assignments.note = w.groups.noteAssignment
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

func (w *workshop) routeMemos() {
	w.vhosts = newMemo(w.store, func(k vhostKey) *resource.Resource {
		return w.encodeVirtualHost(k.table, k.name, route.VirtualHost(k.in), k.in.Domains)
	})
	w.fallbacks = newMemo(w.store, func(k fallbackKey) *resource.Resource {
		name := "allow_any"
		if k.in.RegistryOnly {
			name = "block_all"
		}
		return w.encodeVirtualHost(k.table, name, route.Fallback(k.in), w.domains.List([]string{"*"}))
	})
}

func (w *workshop) listenerMemos() {
	w.proxies = newMemo(w.store, func(in listener.HTTPInput) *resource.Resource { return w.encodeOwn(in.Name, listener.HTTP(in)) })
	w.tcp = newMemo(w.store, func(in listener.TCPInput) *resource.Resource { return w.encodeOwn(in.Name, listener.TCP(in)) })
	w.inbounds = newMemo(w.store, func(in listener.InboundInput) *resource.Resource { return w.encodeOwn(in.Name, listener.Inbound(in)) })
	w.virtualIn = newMemo(w.store, func(in listener.VirtualInboundInput) *resource.Resource {
		return w.encode(listener.VirtualInboundName, listener.VirtualInbound(in))
	})
	w.virtualOut = newMemo(w.store, func(in listener.VirtualOutboundInput) *resource.Resource {
		return w.encode(listener.VirtualOutboundName, listener.VirtualOutbound(in))
	})
	w.gateways = newMemo(w.store, func(in listener.GatewayInput) *resource.Resource { return w.encodeOwn(in.Name, listener.Gateway(in)) })
}

func (w *workshop) secretMemos() {
	w.certificates = newMemo(w.store, func(in secret.CertificateInput) *resource.Resource { return w.encode(in.Name, secret.Certificate(in)) })
	w.authorities = newMemo(w.store, func(in secret.AuthoritiesInput) *resource.Resource { return w.encode(in.Name, secret.Authorities(in)) })
}

func (w *workshop) blackHole() *resource.Resource {
	if w.hole == nil {
		m := cluster.BlackHole()
		w.hole = w.encode(m.GetName(), m)
	}
	return w.hole
}

// of caches what is canonical in a mesh configuration, which hardly ever changes.
func (w *workshop) of(m *model.MeshConfig) *meshParts {
	if w.mesh == nil || w.mesh.config != m {
		w.mesh = &meshParts{config: m, retries: w.retries.Canonical(m.Retries), pool: w.common, common: map[commonKey]*listener.Common{}}
	}
	return w.mesh
}

// meshParts are the parts of a mesh configuration that stand in inputs.
type meshParts struct {
	config  *model.MeshConfig
	retries *model.Retries
	pool    *model.Pool[listener.Common]
	common  map[commonKey]*listener.Common
}

// commonKey is what the listeners of proxies have not in common.
type commonKey struct {
	http10 bool
	stack  model.Stack
}

func (p *meshParts) listeners(of scope.Settings) *listener.Common {
	key := commonKey{of.HTTP10, of.Stack}
	common := p.common[key]
	if common == nil {
		common = p.pool.Canonical(&listener.Common{
			AccessLogFile: p.config.AccessLogFile, IdleTimeout: p.config.IdleTimeout, HTTP10: of.HTTP10, Stack: of.Stack,
		})
		p.common[key] = common
	}
	return common
}

func (w *workshop) allMemos() map[string]remembering {
	return map[string]remembering{
		"cluster": w.clusters, "cluster_inbound": w.inbound, "cluster_passthrough": w.passthrough, "assignment": w.assignments,
		"endpoint": w.groups.members, "virtualhost": w.vhosts, "fallback": w.fallbacks, "listener_http": w.proxies, "listener_tcp": w.tcp,
		"listener_inbound": w.inbounds, "listener_virtual_inbound": w.virtualIn, "listener_virtual_outbound": w.virtualOut, "listener_gateway": w.gateways,
		"secret_certificate": w.certificates, "secret_authorities": w.authorities,
	}
}

// stats are what each kind of translation did.
func (w *workshop) stats() map[string]TranslateStats {
	all := map[string]TranslateStats{}
	for kind, m := range w.memos {
		all[kind] = m.counts()
	}
	return all
}

// size is how many translations are remembered.
func (w *workshop) size() int {
	total := 0
	for _, m := range w.memos {
		total += m.len()
	}
	return total
}

// sweep forgets all translations whose resources are not live, and groups of endpoints that are not held otherwise either.
func (w *workshop) sweep(live *resource.Live, held map[*groupList]bool) {
	for _, m := range w.memos {
		m.sweep(live)
	}
	w.groups.sweep(w.assignments.made, held)
}
