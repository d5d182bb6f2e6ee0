package world

import (
	"github.com/lateen-mesh/lateen/internal/model"
)

// batch is one step of the Writer: edits of all indexes, and the delta that they make.
type batch struct {
	from  *World
	delta *Delta
	mesh  *model.MeshConfig

	services     edit[*model.Service]
	hosts        edit[model.Host]
	byNamespace  edit[*model.Service]
	byPort       edit[*model.Service]
	byVIP        edit[*model.Service]
	loose        edit[*model.Service]
	bySelector   edit[*model.Service]
	serviceApart edit[*model.Service]
	virtualApart edit[*model.VirtualService]
	ruleApart    edit[*model.DestinationRule]
	virtual      edit[*model.VirtualService]
	virtualHost  edit[*model.VirtualService]
	virtualGate  edit[*model.VirtualService]
	virtualDest  edit[*model.VirtualService]
	ruleHost     edit[*model.DestinationRule]
	gateways     edit[*model.Gateway]
	gatewayName  edit[*model.Gateway]
	gatewaySec   edit[*model.Gateway]
	forwarding   edit[*model.Gateway]
	ruleSec      edit[*model.DestinationRule]
	credentials  edit[*model.Credential]
	sidecars     edit[*model.Sidecar]
	guards       edit[*model.Guard]
	workloads    rosterEdit[model.Workload]
	nodes        edit[*model.Node]
	podsByNode   rosterEdit[model.Workload]
	slicesByPod  edit[*model.EndpointSlice]
	slicesByNode edit[*model.EndpointSlice]
	endpoints    edit[*EndpointSet]
	accounts     edit[*accounts]
	selectors    edit[model.Labels]

	dirtySlices  []Pair[model.EndpointSlice]
	pendingHosts int
	subsets      int
}

func newBatch(from *World) *batch {
	return &batch{
		from: from, delta: &Delta{From: from}, mesh: from.Mesh,
		services: from.services.edit(), hosts: from.hosts.edit(), byNamespace: from.byNamespace.edit(), byPort: from.byPort.edit(), byVIP: from.byVIP.edit(), loose: from.loose.edit(),
		serviceApart: from.serviceApart.edit(), virtualApart: from.virtualApart.edit(), ruleApart: from.ruleApart.edit(),
		bySelector: from.bySelector.edit(), virtual: from.virtual.edit(), virtualHost: from.virtualHost.edit(), virtualGate: from.virtualGate.edit(), virtualDest: from.virtualDest.edit(),
		ruleHost: from.ruleHost.edit(), gateways: from.gateways.edit(), gatewayName: from.gatewayName.edit(),
		gatewaySec: from.gatewaySec.edit(), forwarding: from.forwarding.edit(), ruleSec: from.ruleSec.edit(), credentials: from.credentials.edit(), sidecars: from.sidecars.edit(), guards: from.guards.edit(),
		workloads: from.workloads.edit(), nodes: from.nodes.edit(), podsByNode: from.podsByNode.edit(),
		slicesByPod: from.slicesByPod.edit(), slicesByNode: from.slicesByNode.edit(), endpoints: from.endpoints.edit(), accounts: from.accounts.edit(), selectors: from.selectors.edit(),
		pendingHosts: from.pendingHosts, subsets: from.subsets,
	}
}

// finish publishes the step: the same world when nothing changed.
func (b *batch) finish() *World {
	if b.delta.IsEmpty() && len(b.dirtySlices) == 0 {
		b.delta.To = b.from
		return b.from
	}
	next := &World{
		Generation: b.from.Generation + 1, Mesh: b.mesh,
		services: b.services.commit(), hosts: b.hosts.commit(), byNamespace: b.byNamespace.commit(), byPort: b.byPort.commit(), byVIP: b.byVIP.commit(), loose: b.loose.commit(),
		serviceApart: b.serviceApart.commit(), virtualApart: b.virtualApart.commit(), ruleApart: b.ruleApart.commit(),
		bySelector: b.bySelector.commit(), virtual: b.virtual.commit(), virtualHost: b.virtualHost.commit(), virtualGate: b.virtualGate.commit(), virtualDest: b.virtualDest.commit(),
		ruleHost: b.ruleHost.commit(), gateways: b.gateways.commit(), gatewayName: b.gatewayName.commit(),
		gatewaySec: b.gatewaySec.commit(), forwarding: b.forwarding.commit(), ruleSec: b.ruleSec.commit(), credentials: b.credentials.commit(), sidecars: b.sidecars.commit(), guards: b.guards.commit(),
		workloads: b.workloads.commit(), nodes: b.nodes.commit(), podsByNode: b.podsByNode.commit(),
		slicesByPod: b.slicesByPod.commit(), slicesByNode: b.slicesByNode.commit(), endpoints: b.endpoints.commit(), accounts: b.accounts.commit(), selectors: b.selectors.commit(),
		pendingHosts: b.pendingHosts, subsets: b.subsets, lookups: b.from.lookups,
	}
	if b.delta.IsEmpty() {
		next.Generation = b.from.Generation // a slice whose endpoints are all pending: remembered, but nothing to see
	}
	b.delta.To = next
	return next
}

// replace takes a source object's old model objects out and puts its new ones in. It tells whether anything differs that something
// depends on, and with which pointers the new ones are in the world: where the content is equal, the old ones.
func (b *batch) replace(old, now []model.Object) (kept []model.Object, changed bool) {
	for _, o := range old {
		if find(now, identity(o)) == nil {
			changed = b.swap(o, nil) || changed
		}
	}
	kept = make([]model.Object, 0, len(now))
	for _, n := range now {
		o := find(old, identity(n))
		if o != nil && model.Same(o, n) {
			kept = append(kept, o)
			continue
		}
		changed = b.swap(o, n) || changed
		kept = append(kept, n)
	}
	return kept, changed
}

// swap tells whether anything depends on such an object. On a Namespace nothing does: its labels select nothing yet.
func (b *batch) swap(old, now model.Object) bool {
	kind := now
	if kind == nil {
		kind = old
	}
	switch kind.(type) {
	case *model.Service:
		b.swapService(pairOf[*model.Service](old, now))
	case *model.VirtualService:
		b.swapVirtualService(pairOf[*model.VirtualService](old, now))
	case *model.DestinationRule:
		b.swapDestinationRule(pairOf[*model.DestinationRule](old, now))
	case *model.Gateway:
		b.swapGateway(pairOf[*model.Gateway](old, now))
	case *model.Sidecar:
		b.swapSidecar(pairOf[*model.Sidecar](old, now))
	case *model.Guard:
		b.swapGuard(pairOf[*model.Guard](old, now))
	case *model.Credential:
		b.swapCredential(pairOf[*model.Credential](old, now))
	case *model.Workload:
		b.swapWorkload(pairOf[*model.Workload](old, now))
	case *model.Node:
		b.swapNode(pairOf[*model.Node](old, now))
	case *model.EndpointSlice:
		b.swapSlice(pairOf[*model.EndpointSlice](old, now))
	case *model.MeshConfig:
		b.swapMesh(pairOf[*model.MeshConfig](old, now))
	default:
		return false
	}
	return true
}

func pairOf[P any](old, now model.Object) (o, n P) {
	o, _ = old.(P)
	n, _ = now.(P)
	return o, n
}
