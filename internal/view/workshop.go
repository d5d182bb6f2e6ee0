package view

import (
	"github.com/lateen-mesh/lateen/internal/model"
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
	store *Store
	stats TranslateStats

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
	retries   *model.Pool[model.Retries]
	common    *model.Pool[listener.Common]
}

type assignmentKey struct {
	cluster string
	list    *groupList
}

type vhostKey struct {
	name string
	in   route.VirtualHostInput
}

func newWorkshop(store *Store, refused func(model.Endpoint, error)) *workshop {
	w := &workshop{
		store:   store,
		domains: model.NewInterner[string](), refs: model.NewInterner[route.RouteRef](), facts: model.NewInterner[route.DestinationFact](),
		endpoints: model.NewInterner[model.Endpoint](), chains: model.NewInterner[listener.Chain](), targets: model.NewInterner[listener.WeightedTarget](),
		retries: model.NewPool[model.Retries](), common: model.NewPool[listener.Common](),
	}
	w.groups = newGroups(store, &w.stats, refused)
	w.clusterMemos()
	w.routeMemos()
	w.listenerMemos()
	return w
}

func (w *workshop) clusterMemos() {
	w.clusters = newMemo(w.store, &w.stats, func(in cluster.OutboundInput) *Resource {
		m := cluster.Outbound(in)
		r := encode(m.GetName(), m)
		r.eds = m.GetType() == clusterv3.Cluster_EDS
		return r
	})
	w.inbound = newMemo(w.store, &w.stats, func(in cluster.InboundInput) *Resource {
		m := cluster.Inbound(in)
		return encodeOwn(m.GetName(), m)
	})
	w.passthrough = newMemo(w.store, &w.stats, func(in cluster.PassthroughInput) *Resource {
		m := cluster.Passthrough(in)
		return encode(m.GetName(), m)
	})
	w.assignments = newMemo(w.store, &w.stats, assemble)
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
	w.vhosts = newMemo(w.store, &w.stats, func(k vhostKey) *Resource { return encode(k.name, route.VirtualHost(k.in)) })
	w.fallbacks = newMemo(w.store, &w.stats, func(in route.FallbackInput) *Resource {
		name := "allow_any"
		if in.RegistryOnly {
			name = "block_all"
		}
		return encode(name, route.Fallback(in))
	})
}

func (w *workshop) listenerMemos() {
	w.proxies = newMemo(w.store, &w.stats, func(in listener.HTTPInput) *Resource { return encodeOwn(in.Name, listener.HTTP(in)) })
	w.tcp = newMemo(w.store, &w.stats, func(in listener.TCPInput) *Resource { return encodeOwn(in.Name, listener.TCP(in)) })
	w.inbounds = newMemo(w.store, &w.stats, func(in listener.InboundInput) *Resource { return encodeOwn(in.Name, listener.Inbound(in)) })
	w.gateways = newMemo(w.store, &w.stats, func(in listener.GatewayInput) *Resource { return encodeOwn(in.Name, listener.Gateway(in)) })
}

func (w *workshop) blackHole() *Resource {
	m := cluster.BlackHole()
	return w.store.Canonical(encode(m.GetName(), m))
}

func (w *workshop) retriesOf(m *model.MeshConfig) *model.Retries {
	return w.retries.Canonical(m.Retries)
}

func (w *workshop) commonOf(m *model.MeshConfig, http10 bool) *listener.Common {
	return w.common.Canonical(&listener.Common{AccessLogFile: m.AccessLogFile, IdleTimeout: m.IdleTimeout, HTTP10: http10})
}

// size is how many translations are remembered.
func (w *workshop) size() int {
	return w.clusters.len() + w.inbound.len() + w.passthrough.len() + w.assignments.len() + w.vhosts.len() + w.fallbacks.len() +
		w.proxies.len() + w.tcp.len() + w.inbounds.len() + w.gateways.len() + w.groups.members.len()
}

// sweep forgets all translations whose resources are not live.
func (w *workshop) sweep(live map[*Resource]bool) {
	lists := map[*groupList]bool{}
	w.clusters.sweep(live)
	w.inbound.sweep(live)
	w.passthrough.sweep(live)
	w.assignments.sweep(live)
	w.vhosts.sweep(live)
	w.fallbacks.sweep(live)
	w.proxies.sweep(live)
	w.tcp.sweep(live)
	w.inbounds.sweep(live)
	w.gateways.sweep(live)
	w.groups.members.sweep(live)
	for k := range w.assignments.made {
		lists[k.list] = true
	}
	w.groups.sweep(lists)
}
