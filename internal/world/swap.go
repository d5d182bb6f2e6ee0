package world

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/model"
)

func (b *batch) swapService(old, now *model.Service) {
	if old != nil {
		b.services.drop(ordered(join(string(old.Host)), &old.Meta, ""))
		b.byNamespace.drop(ordered(join(old.Namespace, string(old.Host)), &old.Meta, ""))
		if !old.Selector.IsEmpty() {
			b.bySelector.drop(selectingKey(old))
		}
		for _, p := range old.Ports {
			b.byPort.drop(portKey(old, p))
		}
		eachVIP(old, func(key []byte) { b.byVIP.drop(key) })
		eachLoose(old, func(key []byte) { b.loose.drop(key) })
		eachServiceApart(old, b.serviceApart.drop)
	}
	if now != nil {
		b.services.put(ordered(join(string(now.Host)), &now.Meta, ""), now)
		b.byNamespace.put(ordered(join(now.Namespace, string(now.Host)), &now.Meta, ""), now)
		if !now.Selector.IsEmpty() {
			b.bySelector.put(selectingKey(now), now)
		}
		for _, p := range now.Ports {
			b.byPort.put(portKey(now, p), now)
		}
		eachVIP(now, func(key []byte) { b.byVIP.put(key, now) })
		eachLoose(now, func(key []byte) { b.loose.put(key, now) })
		eachServiceApart(now, func(key []byte) { b.serviceApart.put(key, now) })
		b.hosts.put(reversed(now.Host), now.Host)
	} else if _, claimed := b.services.commit().first(join(string(old.Host))); !claimed {
		b.hosts.drop(reversed(old.Host))
	}
	b.delta.Services = append(b.delta.Services, Pair[model.Service]{Old: old, New: now})
}

func (b *batch) swapVirtualService(old, now *model.VirtualService) {
	if old != nil {
		b.virtual.drop(join(old.Namespace, old.Name))
		eachPlace(old, func(ix place, key []byte) { b.placeOf(ix).drop(key) })
		eachRoutesApart(old, b.virtualApart.drop)
		for _, s := range SourceSelectors(old) {
			b.selectors.drop(selectorKey(s, &old.Meta))
		}
	}
	if now != nil {
		b.virtual.put(join(now.Namespace, now.Name), now)
		eachPlace(now, func(ix place, key []byte) { b.placeOf(ix).put(key, now) })
		eachRoutesApart(now, func(key []byte) { b.virtualApart.put(key, now) })
		for _, s := range SourceSelectors(now) {
			b.selectors.put(selectorKey(s, &now.Meta), s)
		}
	}
	b.delta.VirtualServices = append(b.delta.VirtualServices, Pair[model.VirtualService]{Old: old, New: now})
}

// place is one of the indexes that a VirtualService stands in by what it names.
type place uint8

const (
	atHost place = iota
	atGateway
	atDestination
)

func (b *batch) placeOf(p place) *edit[*model.VirtualService] {
	return [...]*edit[*model.VirtualService]{atHost: &b.virtualHost, atGateway: &b.virtualGate, atDestination: &b.virtualDest}[p]
}

func eachPlace(v *model.VirtualService, f func(place, []byte)) {
	for _, h := range v.Hosts {
		f(atHost, ordered(join(string(h)), &v.Meta, ""))
	}
	for _, g := range v.Gateways {
		f(atGateway, ordered(join(g), &v.Meta, ""))
	}
	for _, d := range DestinationHosts(v) {
		f(atDestination, ordered(join(string(d)), &v.Meta, ""))
	}
}

// DestinationHosts are the hosts that a VirtualService routes or mirrors to, sorted, each once.
func DestinationHosts(v *model.VirtualService) []model.Host {
	var hosts []model.Host
	add := func(ds []model.Destination) {
		for _, d := range ds {
			hosts = append(hosts, d.Host)
		}
	}
	for _, r := range v.HTTP {
		add(r.Destinations)
		for _, m := range r.Mirrors {
			hosts = append(hosts, m.Destination.Host)
		}
	}
	for _, r := range v.TLS {
		add(r.Destinations)
	}
	for _, r := range v.TCP {
		add(r.Destinations)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// SourceSelectors are the sourceLabels in a VirtualService's matches.
func SourceSelectors(v *model.VirtualService) []model.Labels {
	var found []model.Labels
	add := func(l model.Labels) {
		if !l.IsEmpty() {
			found = append(found, l)
		}
	}
	for _, r := range v.HTTP {
		for _, m := range r.Matches {
			add(m.SourceLabels)
		}
	}
	for _, r := range v.TLS {
		for _, m := range r.Matches {
			add(m.SourceLabels)
		}
	}
	for _, r := range v.TCP {
		for _, m := range r.Matches {
			add(m.SourceLabels)
		}
	}
	return found
}

func selectorKey(l model.Labels, m *model.Meta) []byte {
	return join(l.FirstPair(), l.String(), string(m.Kind), m.Namespace, m.Name)
}

func selectingKey(s *model.Service) []byte {
	return ordered(join(s.Namespace, s.Selector.FirstPair()), &s.Meta, s.Host)
}

func portKey(s *model.Service, p model.ServicePort) []byte {
	return ordered(portPrefix(p.Port, p.Protocol), &s.Meta, s.Host)
}

func (b *batch) swapSelector(old, now model.Labels, m *model.Meta) {
	if !old.IsEmpty() {
		b.selectors.drop(selectorKey(old, m))
	}
	if !now.IsEmpty() {
		b.selectors.put(selectorKey(now, m), now)
	}
}

func (b *batch) swapDestinationRule(old, now *model.DestinationRule) {
	if old != nil {
		b.subsets -= len(old.Subsets)
		b.ruleHost.drop(ordered(join(string(old.Host)), &old.Meta, ""))
		eachRuleApart(old, b.ruleApart.drop)
		for _, c := range old.Credentials() {
			b.ruleSec.drop(ordered(join(c), &old.Meta, ""))
		}
		b.swapSelector(old.Selector, model.Labels{}, &old.Meta)
	}
	if now != nil {
		b.subsets += len(now.Subsets)
		b.ruleHost.put(ordered(join(string(now.Host)), &now.Meta, ""), now)
		eachRuleApart(now, func(key []byte) { b.ruleApart.put(key, now) })
		for _, c := range now.Credentials() {
			b.ruleSec.put(ordered(join(c), &now.Meta, ""), now)
		}
		b.swapSelector(model.Labels{}, now.Selector, &now.Meta)
	}
	b.delta.DestinationRules = append(b.delta.DestinationRules, Pair[model.DestinationRule]{Old: old, New: now})
}

func (b *batch) swapGateway(old, now *model.Gateway) {
	if old != nil {
		b.gateways.drop(ordered(nil, &old.Meta, ""))
		b.gatewayName.drop(join(old.Namespace + "/" + old.Name))
		for _, c := range old.Credentials() {
			b.gatewaySec.drop(ordered(join(c), &old.Meta, ""))
		}
		if old.ForwardsAny() {
			b.forwarding.drop(ordered(nil, &old.Meta, ""))
		}
		b.swapSelector(old.Selector, model.Labels{}, &old.Meta)
	}
	if now != nil {
		b.gateways.put(ordered(nil, &now.Meta, ""), now)
		b.gatewayName.put(join(now.Namespace+"/"+now.Name), now)
		for _, c := range now.Credentials() {
			b.gatewaySec.put(ordered(join(c), &now.Meta, ""), now)
		}
		if now.ForwardsAny() {
			b.forwarding.put(ordered(nil, &now.Meta, ""), now)
		}
		b.swapSelector(model.Labels{}, now.Selector, &now.Meta)
	}
	b.delta.Gateways = append(b.delta.Gateways, Pair[model.Gateway]{Old: old, New: now})
}

func (b *batch) swapSidecar(old, now *model.Sidecar) {
	if old != nil {
		b.sidecars.drop(ordered(join(old.Namespace), &old.Meta, ""))
		b.swapSelector(old.Selector, model.Labels{}, &old.Meta)
	}
	if now != nil {
		b.sidecars.put(ordered(join(now.Namespace), &now.Meta, ""), now)
		b.swapSelector(model.Labels{}, now.Selector, &now.Meta)
	}
	b.delta.Sidecars = append(b.delta.Sidecars, Pair[model.Sidecar]{Old: old, New: now})
}

func (b *batch) swapGuard(old, now *model.Guard) {
	key := func(g *model.Guard) []byte { return ordered(join(g.Namespace, string(g.Kind)), &g.Meta, "") }
	if old != nil {
		b.guards.drop(key(old))
		b.swapSelector(old.Selector, model.Labels{}, &old.Meta)
	}
	if now != nil {
		b.guards.put(key(now), now)
		b.swapSelector(model.Labels{}, now.Selector, &now.Meta)
	}
	b.delta.Guards = append(b.delta.Guards, Pair[model.Guard]{Old: old, New: now})
}

func (b *batch) swapCredential(old, now *model.Credential) {
	if old != nil {
		b.credentials.drop(join(old.Namespace, old.Name))
	}
	if now != nil {
		b.credentials.put(join(now.Namespace, now.Name), now)
	}
	b.delta.Credentials = append(b.delta.Credentials, Pair[model.Credential]{Old: old, New: now})
}

func (b *batch) swapWorkload(old, now *model.Workload) {
	if now != nil {
		now = b.sharing(now)
	}
	if old != nil {
		b.workloads.drop(podNamed(old.Namespace, old.Name))
		b.podsByNode.drop(func(w *model.Workload) int { return byNode(w, old) })
	}
	if now != nil {
		b.workloads.put(now)
		if now.Node != "" {
			b.podsByNode.put(now)
		}
	}
	b.delta.Workloads = append(b.delta.Workloads, Pair[model.Workload]{Old: old, New: now})
}

func (b *batch) swapNode(old, now *model.Node) {
	if old != nil {
		b.nodes.drop(join(old.Name))
	}
	if now != nil {
		b.nodes.put(join(now.Name), now)
	}
	b.delta.Nodes = append(b.delta.Nodes, Pair[model.Node]{Old: old, New: now})
}

func (b *batch) swapSlice(old, now *model.EndpointSlice) {
	if old != nil {
		pods, nodes := namedBy(now)
		for _, pod := range old.Unready {
			if !pods[pod] {
				b.slicesByPod.drop(join(old.Namespace, pod, old.Name))
			}
		}
		for _, h := range old.Hosts {
			if !pods[h.Pod] {
				b.slicesByPod.drop(join(old.Namespace, h.Pod, old.Name))
			}
			if !nodes[h.Node] {
				b.slicesByNode.drop(join(h.Node, old.Namespace, old.Name))
			}
		}
	}
	if now != nil {
		for _, pod := range now.Unready {
			b.slicesByPod.put(join(now.Namespace, pod, now.Name), now)
		}
		for _, h := range now.Hosts {
			if h.Pod != "" {
				b.slicesByPod.put(join(now.Namespace, h.Pod, now.Name), now)
			}
			if h.Node != "" {
				b.slicesByNode.put(join(h.Node, now.Namespace, now.Name), now)
			}
		}
	}
	b.dirtySlices = append(b.dirtySlices, Pair[model.EndpointSlice]{Old: old, New: now})
}

// namedBy are the pods and the nodes that a slice names, nil for no slice: there it takes the place of what it was.
func namedBy(s *model.EndpointSlice) (pods, nodes map[string]bool) {
	if s == nil {
		return nil, nil
	}
	pods, nodes = make(map[string]bool, len(s.Hosts)+len(s.Unready)), make(map[string]bool, len(s.Hosts))
	for _, pod := range s.Unready {
		pods[pod] = true
	}
	for _, h := range s.Hosts {
		pods[h.Pod], nodes[h.Node] = true, true
	}
	return pods, nodes
}

func (b *batch) swapMesh(_, now *model.MeshConfig) {
	if now == nil {
		mesh := model.DefaultMesh()
		now = &mesh
	}
	if model.Same(now, b.mesh) {
		return // one that says what holds without it
	}
	b.mesh = now
	b.delta.Mesh = true
}
