package meshlife

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

func (h *History) younger(t *rapid.T, kind kinds.Kind) []Update {
	victim, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	if kind == kinds.Service {
		kind = kinds.ServiceEntry // another Service of Kubernetes cannot have its host
	}
	return h.rival(t, kind, h.present[victim][0], 1)
}

func (h *History) older(t *rapid.T, kind kinds.Kind) []Update {
	if kind == kinds.Service {
		return h.beforeEntry(t)
	}
	victim, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	return h.rival(t, kind, h.present[victim][0], -1)
}

// beforeEntry creates a Service of Kubernetes, which comes before the ServiceEntry that has its
// host.
func (h *History) beforeEntry(t *rapid.T) []Update {
	taken := map[model.Host]bool{}
	for _, k := range h.keys(kinds.ServiceEntry) {
		for _, o := range h.present[k] {
			taken[o.(*model.Service).Host] = true
		}
	}
	k, ok := some(t, slices.DeleteFunc(h.free(kinds.Service), func(k source.Key) bool {
		return !taken[model.Resolve(k.Name, k.Namespace, "cluster.local")]
	}))
	if !ok {
		return nil
	}
	return []Update{h.set(k, drawObjects(t, k))}
}

// rival creates an object that claims what another of its kind claims, with another age.
func (h *History) rival(t *rapid.T, kind kinds.Kind, victim model.Object, age int64) []Update {
	meta := model.MetaOf(victim)
	k, ok := some(t, slices.DeleteFunc(h.free(kind), func(k source.Key) bool {
		return contestedWithin(kind) && k.Namespace != meta.Namespace
	}))
	if !ok {
		return nil
	}
	objects := drawObjects(t, k)[:1]
	if rapid.Bool().Draw(t, "alike") { // in all but its name
		m := *model.MetaOf(objects[0])
		objects[0] = Clone(victim)
		*model.MetaOf(objects[0]) = m
	}
	claim(objects[0], victim)
	model.MetaOf(objects[0]).Created = meta.Created + age
	return []Update{h.set(k, objects)}
}

// contestedWithin tells whether only objects of one namespace contest something.
func contestedWithin(kind kinds.Kind) bool {
	return slices.Contains(
		[]kinds.Kind{
			kinds.DestinationRule, kinds.Sidecar, kinds.PeerAuthentication, kinds.Telemetry, kinds.ProxyConfig,
		}, kind,
	)
}

// claim makes o contest what other has.
func claim(o, other model.Object) {
	switch o := o.(type) {
	case *model.Service:
		o.Host = other.(*model.Service).Host
	case *model.RootRoutes:
		claim(&o.VirtualService, other)
	case *model.VirtualService:
		if v := routesOf(other); v != nil {
			o.Hosts = slices.Clone(v.Hosts[:1])
		}
	case *model.DestinationRule:
		o.Host, o.Selector = other.(*model.DestinationRule).Host, other.(*model.DestinationRule).Selector
	case *model.Sidecar:
		o.Selector = other.(*model.Sidecar).Selector
	case *model.PeerAuthentication:
		o.Selector = other.(*model.PeerAuthentication).Selector
	case *model.Telemetry:
		o.Selection = other.(*model.Telemetry).Selection
	case *model.ProxyConfig:
		o.Selector = other.(*model.ProxyConfig).Selector
	case *model.Gateway:
		o.Selector = other.(*model.Gateway).Selector
		o.Servers = Clone(other.(*model.Gateway).Servers)
	}
}

func (h *History) abdicate(t *rapid.T, kind kinds.Kind) []Update {
	var first []source.Key
	claimants := h.claimants()
	for _, c := range slices.Sorted(maps.Keys(claimants)) {
		if k := claimants[c][0]; k.Kind == kind {
			first = append(first, k)
		}
	}
	k, ok := some(t, first)
	if !ok {
		return nil
	}
	return []Update{h.set(k, nil)}
}
