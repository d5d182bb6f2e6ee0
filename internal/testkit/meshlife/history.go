package meshlife

import (
	"cmp"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Update is what one source object is from now on: the model objects that it gives, none when it goes away.
type Update struct {
	Key     source.Key
	Objects []model.Object
}

// Change is what happens to a mesh at once: of what sort, to which kind of object, and the updates that say so.
type Change struct {
	Verb    Verb
	Kind    source.Kind
	Updates []Update
}

// History is the life of one mesh. It is not safe for concurrent use.
type History struct {
	present map[source.Key][]model.Object
	gone    map[source.Key]bool
	pools   *pools
}

// NewHistory begins with an empty mesh.
func NewHistory() *History {
	return &History{present: map[source.Key][]model.Object{}, gone: map[source.Key]bool{}, pools: newPools()}
}

// Present are the objects that there are now, by key, as copies that share nothing with any update.
func (h *History) Present() []Update {
	var list []Update
	for _, k := range slices.SortedFunc(maps.Keys(h.present), source.Key.Compare) {
		list = append(list, Update{Key: k, Objects: Clone(h.present[k])})
	}
	return list
}

// howMany objects of each kind a mesh may begin with: endpoints matter where there are services and pods, and a Sidecar hides
// most of what happens.
var howMany = map[source.Kind][]int{
	source.Service: {0, 6, 12}, source.ServiceEntry: {0, 2, 4}, source.VirtualService: {0, 3, 6}, source.DestinationRule: {0, 2, 4}, source.Sidecar: {0, 1, 2},
	source.Gateway: {0, 2, 3}, source.Pod: {0, 6, 12}, source.EndpointSlice: {0, 5, 10}, source.Namespace: {0, 2}, source.ConfigMap: {0, 1},
	source.AuthorizationPolicy: {0, 0, 1}, source.PeerAuthentication: {0, 2, 5},
}

// Begin draws the objects that a mesh begins with.
func (h *History) Begin(t *rapid.T) []Update {
	var list []Update
	for _, kind := range Kinds {
		for range one(t, "how many", howMany[kind]...) {
			k := drawKey(t, kind)
			list = append(list, h.set(k, drawObjects(t, k)))
		}
	}
	return list
}

// Next draws a change. It may be one of no effect, but never one that cannot be.
func (h *History) Next(t *rapid.T) Change {
	drawn := rapid.SampledFrom(Verbs).Draw(t, "verb")
	kinds := drawn.Kinds()
	if drawn == Return && len(h.gone) > 0 {
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(k source.Kind) bool {
			return !slices.ContainsFunc(h.free(k), func(key source.Key) bool { return h.gone[key] })
		})
	}
	return h.Make(t, drawn, rapid.SampledFrom(kinds).Draw(t, "kind"))
}

// Make draws a change of a sort to a kind of object; where there is nothing to change in this way yet, one on the way there.
func (h *History) Make(t *rapid.T, wanted Verb, kind source.Kind) Change {
	for _, verb := range []Verb{wanted, verbs[wanted].before, Create, Return, Tweak} { // one of the last three is always possible
		if verb == "" || !slices.Contains(verb.Kinds(), kind) {
			continue
		}
		if updates := verbs[verb].draw(h, t, kind); updates != nil {
			return Change{Verb: verb, Kind: kind, Updates: updates}
		}
	}
	panic("a kind has neither free names nor objects")
}

// set records what a source object is from now on, and is the update that says so.
func (h *History) set(k source.Key, objects []model.Object) Update {
	u := Update{Key: k}
	if len(objects) == 0 {
		h.gone[k] = true
		delete(h.present, k)
		return u
	}
	delete(h.gone, k)
	h.present[k] = objects
	for _, o := range objects {
		u.Objects = append(u.Objects, h.pools.ingested(o))
	}
	return u
}

// keys are those of a kind that are present.
func (h *History) keys(kind source.Kind) []source.Key {
	return slices.DeleteFunc(slices.SortedFunc(maps.Keys(h.present), source.Key.Compare), func(k source.Key) bool { return k.Kind != kind })
}

// free are keys of a kind that are not present.
func (h *History) free(kind source.Kind) []source.Key {
	var all []source.Key
	for _, namespace := range namespaces {
		switch kind {
		case source.ConfigMap:
			all = []source.Key{meshKey}
		case source.Namespace:
			all = append(all, source.Key{Kind: kind, Name: namespace})
		default:
			for _, name := range namesOf(kind, namespace) {
				all = append(all, source.Key{Kind: kind, Namespace: namespace, Name: name})
			}
		}
	}
	return slices.DeleteFunc(all, func(k source.Key) bool { return h.present[k] != nil })
}

// some draws one of the keys, false when there is none.
func some(t *rapid.T, keys []source.Key) (source.Key, bool) {
	if len(keys) == 0 {
		return source.Key{}, false
	}
	return rapid.SampledFrom(keys).Draw(t, "which"), true
}

// contest is what objects claim of which one alone can be first: a host, or a namespace's Sidecar; empty for what nobody
// contests.
func contest(o model.Object) string {
	switch o := o.(type) {
	case *model.Service:
		return "service " + string(o.Host)
	case *model.VirtualService:
		return "routes " + string(o.Hosts[0])
	case *model.DestinationRule:
		return "rule " + o.Namespace + " " + string(o.Host) + " " + o.Selector.String()
	case *model.Sidecar:
		return "sidecar " + o.Namespace + " " + o.Selector.String()
	case *model.Guard:
		if o.Kind == source.PeerAuthentication {
			return "plaintext " + o.Namespace + " " + o.Selector.String()
		}
	case *model.Gateway:
		return "gateway" // servers of a port are merged, the oldest Gateway's first
	}
	return ""
}

// claimants are the source objects that contest something, in the total order, by what it is; only of what several claim.
func (h *History) claimants() map[string][]source.Key {
	type claim struct {
		key  source.Key
		meta *model.Meta
	}
	claims := map[string][]claim{}
	for k, objects := range h.present {
		for _, o := range objects {
			if c := contest(o); c != "" {
				claims[c] = append(claims[c], claim{k, MetaOf(o)})
			}
		}
	}
	out := map[string][]source.Key{}
	for c, list := range claims {
		if len(list) < 2 {
			continue
		}
		slices.SortFunc(list, func(a, b claim) int { return cmp.Or(a.meta.Compare(b.meta), a.key.Compare(b.key)) })
		for _, l := range list {
			out[c] = append(out[c], l.key)
		}
	}
	return out
}

// MetaOf is the metadata of an object; of a MeshConfig, which has none, that of its ConfigMap.
func MetaOf(o model.Object) *model.Meta {
	switch o := o.(type) {
	case *model.Service:
		return &o.Meta
	case *model.VirtualService:
		return &o.Meta
	case *model.DestinationRule:
		return &o.Meta
	case *model.Sidecar:
		return &o.Meta
	case *model.Gateway:
		return &o.Meta
	case *model.Guard:
		return &o.Meta
	case *model.Workload:
		return &o.Meta
	case *model.EndpointSlice:
		return &o.Meta
	case *model.Namespace:
		return &o.Meta
	}
	return &model.Meta{Kind: meshKey.Kind, Namespace: meshKey.Namespace, Name: meshKey.Name}
}

// Any is an update out of any history: one object with lists and policies of its own, or, once in four times, none.
func Any(t *rapid.T) Update {
	k := drawKey(t, rapid.SampledFrom(Kinds).Draw(t, "kind"))
	u := Update{Key: k, Objects: drawObjects(t, k)[:1]}
	if rarely(t, 4, "deleted") {
		u.Objects = nil
	}
	return u
}
