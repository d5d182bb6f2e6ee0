package view

import (
	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/route"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
)

// workshop is where resources are made: one memo per translation, and the interners of the lists in their inputs. All
// classes share it. It is used by one goroutine.
type workshop struct {
	store    *Store
	refusals Refusals

	clusters    *memo[cluster.OutboundInput]
	inbound     *memo[cluster.InboundInput]
	passthrough *memo[cluster.PassthroughInput]
	assignments *memo[assignmentKey]
	vhosts      *memo[vhostKey]
	fallbacks   *memo[route.FallbackInput]
	proxies     *memo[listener.HTTPInput]
	tcp         *memo[listener.TCPInput]
	inbounds    *memo[listener.InboundInput]
	gateways    *memo[listener.GatewayInput]
	groups      *groups

	domains   *model.Interner[string]
	refs      *model.Interner[route.RouteRef]
	facts     *model.Interner[route.DestinationFact]
	endpoints *model.Interner[model.Endpoint]
	chains    *model.Interner[listener.Chain]
	targets   *model.Interner[listener.WeightedTarget]
	names     *model.Interner[string] // that resources refer to
	retries   *model.Pool[model.Retries]
	common    *model.Pool[listener.Common]
	mesh      *meshParts
	hole      *Resource // BlackHoleCluster, which has no input
	work      Work
	conflicts *source.Tally // how many classes see each
}

type assignmentKey struct {
	cluster string
	list    *groupList
}

type vhostKey struct {
	name string
	in   route.VirtualHostInput
}

func newWorkshop(store *Store, refusals Refusals) *workshop {
	w := &workshop{
		store: store, refusals: refusals, conflicts: source.NewTally(),
		domains: model.NewInterner[string](), refs: model.NewInterner[route.RouteRef](), facts: model.NewInterner[route.DestinationFact](),
		endpoints: model.NewInterner[model.Endpoint](), chains: model.NewInterner[listener.Chain](), targets: model.NewInterner[listener.WeightedTarget](), names: model.NewInterner[string](),
		retries: model.NewPool[model.Retries](), common: model.NewPool[listener.Common](),
	}
	w.groups = newGroups(w)
	w.clusterMemos()
	w.routeMemos()
	w.listenerMemos()
	return w
}

func (w *workshop) clusterMemos() {
	w.clusters = newMemo(w.store, func(in cluster.OutboundInput) *Resource {
		m := cluster.Outbound(in)
		r := w.encode(m.GetName(), m)
		if r != nil {
			r.eds = m.GetType() == clusterv3.Cluster_EDS
		}
		return r
	})
	w.inbound = newMemo(w.store, func(in cluster.InboundInput) *Resource {
		m := cluster.Inbound(in)
		return w.encodeOwn(m.GetName(), m)
	})
	w.passthrough = newMemo(w.store, func(in cluster.PassthroughInput) *Resource {
		m := cluster.Passthrough(in)
		return w.encode(m.GetName(), m)
	})
	w.assignments = newMemo(w.store, assemble)
}

// assemble makes a ClusterLoadAssignment of shared endpoint sets.
func assemble(k assignmentKey) *Resource {
	var list []Group
	for _, l := range k.list.localities {
		head, err := pb.Marshal(endpoint.Group(endpoint.GroupInput{Locality: l.locality}))
		if err != nil {
			continue
		}
		list = append(list, Group{Head: head, Members: l.members})
	}
	head, err := pb.Marshal(endpoint.Assignment(endpoint.AssignmentInput{Cluster: k.cluster}))
	if err != nil {
		head = nil
	}
	return NewAssignment(k.cluster, head, list)
}

func (w *workshop) routeMemos() {
	w.vhosts = newMemo(w.store, func(k vhostKey) *Resource {
		return w.encodeVirtualHost(k.name, route.VirtualHost(k.in), k.in.Domains)
	})
	w.fallbacks = newMemo(w.store, func(in route.FallbackInput) *Resource {
		name := "allow_any"
		if in.RegistryOnly {
			name = "block_all"
		}
		return w.encodeVirtualHost(name, route.Fallback(in), w.domains.List([]string{"*"}))
	})
}

func (w *workshop) listenerMemos() {
	w.proxies = newMemo(w.store, func(in listener.HTTPInput) *Resource { return w.encodeOwn(in.Name, listener.HTTP(in)) })
	w.tcp = newMemo(w.store, func(in listener.TCPInput) *Resource { return w.encodeOwn(in.Name, listener.TCP(in)) })
	w.inbounds = newMemo(w.store, func(in listener.InboundInput) *Resource { return w.encodeOwn(in.Name, listener.Inbound(in)) })
	w.gateways = newMemo(w.store, func(in listener.GatewayInput) *Resource { return w.encodeOwn(in.Name, listener.Gateway(in)) })
}

func (w *workshop) blackHole() *Resource {
	if w.hole == nil {
		m := cluster.BlackHole()
		w.hole = w.encode(m.GetName(), m)
	}
	return w.hole
}

// of caches what is canonical in a mesh configuration, which hardly ever changes.
func (w *workshop) of(m *model.MeshConfig) *meshParts {
	if w.mesh == nil || w.mesh.config != m {
		w.mesh = &meshParts{config: m, retries: w.retries.Canonical(m.Retries), common: [2]*listener.Common{w.commonOf(m, false), w.commonOf(m, true)}}
	}
	return w.mesh
}

// meshParts are the parts of a mesh configuration that stand in inputs.
type meshParts struct {
	config  *model.MeshConfig
	retries *model.Retries
	common  [2]*listener.Common // without and with HTTP/1.0
}

func (p *meshParts) listeners(http10 bool) *listener.Common {
	if http10 {
		return p.common[1]
	}
	return p.common[0]
}

func (w *workshop) commonOf(m *model.MeshConfig, http10 bool) *listener.Common {
	return w.common.Canonical(&listener.Common{AccessLogFile: m.AccessLogFile, IdleTimeout: m.IdleTimeout, HTTP10: http10})
}

// memos are all memos by the kind of what they make.
func (w *workshop) memos() map[string]remembering {
	return map[string]remembering{
		"cluster": w.clusters, "cluster_inbound": w.inbound, "cluster_passthrough": w.passthrough, "assignment": w.assignments,
		"endpoint": w.groups.members, "virtualhost": w.vhosts, "fallback": w.fallbacks, "listener_http": w.proxies, "listener_tcp": w.tcp,
		"listener_inbound": w.inbounds, "listener_gateway": w.gateways,
	}
}

// stats are what each kind of translation did.
func (w *workshop) stats() map[string]TranslateStats {
	all := map[string]TranslateStats{}
	for kind, m := range w.memos() {
		all[kind] = m.counts()
	}
	return all
}

// size is how many translations are remembered.
func (w *workshop) size() int {
	total := 0
	for _, m := range w.memos() {
		total += m.len()
	}
	return total
}

// sweep forgets all translations whose resources are not live.
func (w *workshop) sweep(live map[*Resource]bool) {
	for _, m := range w.memos() {
		m.sweep(live)
	}
	lists := map[*groupList]bool{}
	for k := range w.assignments.made {
		lists[k.list] = true
	}
	w.groups.sweep(lists)
}
