package meshlife

import (
	"maps"
	"reflect"
	"slices"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Verb is a sort of change.
type Verb string

// The sorts of changes.
const (
	Create   Verb = "create"   // of a name that nothing had
	Return   Verb = "return"   // under the name of what was deleted in an earlier step
	Recreate Verb = "recreate" // deleted and created in one batch
	Tweak    Verb = "tweak"    // one part differs
	Replace  Verb = "replace"  // everything but the name may differ
	Delete   Verb = "delete"
	Resend   Verb = "resend" // equal content
	Relist   Verb = "relist" // equal content of all objects of the kind
	Older    Verb = "older"  // a new claimant of what another has comes before it
	Younger  Verb = "younger"
	Abdicate Verb = "abdicate" // of several claimants the first goes
	Relabel  Verb = "relabel"  // other labels, or another selector
	Shift    Verb = "shift"    // an endpoint goes from one slice to another
)

// Verbs are all of them.
var Verbs = slices.Sorted(maps.Keys(verbs))

// verb says which kinds a sort of change is for, and how one is drawn; nil when the mesh has nothing to change in this way,
// and then what would make it have something is drawn before.
type verb struct {
	kinds  []source.Kind
	draw   func(*History, *rapid.T, source.Kind) []Update
	before Verb
}

var verbs = map[Verb]verb{
	Create: {Kinds, (*History).create, ""}, Return: {Kinds, (*History).bringBack, Delete}, Recreate: {Kinds, (*History).recreate, ""},
	Tweak: {Kinds, (*History).tweak, ""}, Replace: {Kinds, (*History).replace, ""}, Delete: {Kinds, (*History).remove, ""},
	Resend: {Kinds, (*History).resend, ""}, Relist: {Kinds, (*History).relist, ""},
	Older: {contested, (*History).older, ""}, Younger: {contested, (*History).younger, ""}, Abdicate: {contested, (*History).abdicate, Younger},
	Relabel: {labelled, (*History).relabel, ""}, Shift: {[]source.Kind{source.EndpointSlice}, (*History).shift, ""},
}

var (
	contested = []source.Kind{source.Service, source.ServiceEntry, source.VirtualService, source.DestinationRule, source.Sidecar, source.Gateway, source.PeerAuthentication}
	labelled  = []source.Kind{source.Pod, source.Namespace, source.Service, source.ServiceEntry, source.DestinationRule, source.Sidecar, source.Gateway,
		source.AuthorizationPolicy, source.PeerAuthentication}
)

// Kinds are those that it can happen to.
func (v Verb) Kinds() []source.Kind { return verbs[v].kinds }

func (h *History) create(t *rapid.T, kind source.Kind) []Update {
	k, ok := some(t, slices.DeleteFunc(h.free(kind), func(k source.Key) bool { return h.gone[k] }))
	if !ok {
		return nil
	}
	return []Update{h.set(k, drawObjects(t, k))}
}

func (h *History) bringBack(t *rapid.T, kind source.Kind) []Update {
	k, ok := some(t, slices.DeleteFunc(h.free(kind), func(k source.Key) bool { return !h.gone[k] }))
	if !ok {
		return nil
	}
	return []Update{h.set(k, drawObjects(t, k))}
}

func (h *History) recreate(t *rapid.T, kind source.Kind) []Update {
	k, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	return []Update{{Key: k}, h.set(k, h.tweaked(t, k))}
}

func (h *History) tweak(t *rapid.T, kind source.Kind) []Update {
	k, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	return []Update{h.set(k, h.tweaked(t, k))}
}

// tweaked are the objects of a key with one part changed, unless that makes what ingest would never give.
func (h *History) tweaked(t *rapid.T, k source.Key) []model.Object {
	objects, other := Clone(h.present[k]), drawObjects(t, k)
	i := rapid.IntRange(0, len(objects)-1).Draw(t, "object")
	tweak(t, reflect.ValueOf(objects[i]).Elem(), reflect.ValueOf(other[0]).Elem())
	if !sound(objects) {
		return other
	}
	return objects
}

func (h *History) replace(t *rapid.T, kind source.Kind) []Update {
	k, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	return []Update{h.set(k, drawObjects(t, k))}
}

func (h *History) remove(t *rapid.T, kind source.Kind) []Update {
	k, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	return []Update{h.set(k, nil)}
}

func (h *History) resend(t *rapid.T, kind source.Kind) []Update {
	k, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	return []Update{h.set(k, h.present[k])}
}

func (h *History) relist(t *rapid.T, kind source.Kind) []Update {
	var list []Update
	for _, k := range h.keys(kind) {
		list = append(list, h.set(k, h.present[k]))
	}
	if list == nil {
		return nil
	}
	return rapid.Permutation(list).Draw(t, "order")
}

func (h *History) younger(t *rapid.T, kind source.Kind) []Update {
	victim, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	if kind == source.Service {
		kind = source.ServiceEntry // another Service of Kubernetes cannot have its host
	}
	return h.rival(t, kind, h.present[victim][0], 1)
}

func (h *History) older(t *rapid.T, kind source.Kind) []Update {
	if kind == source.Service {
		return h.beforeEntry(t)
	}
	victim, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	return h.rival(t, kind, h.present[victim][0], -1)
}

// beforeEntry creates a Service of Kubernetes, which comes before the ServiceEntry that has its host.
func (h *History) beforeEntry(t *rapid.T) []Update {
	taken := map[model.Host]bool{}
	for _, k := range h.keys(source.ServiceEntry) {
		for _, o := range h.present[k] {
			taken[o.(*model.Service).Host] = true
		}
	}
	k, ok := some(t, slices.DeleteFunc(h.free(source.Service), func(k source.Key) bool { return !taken[model.Resolve(k.Name, k.Namespace, "cluster.local")] }))
	if !ok {
		return nil
	}
	return []Update{h.set(k, drawObjects(t, k))}
}

// rival creates an object that claims what another of its kind claims, with another age.
func (h *History) rival(t *rapid.T, kind source.Kind, victim model.Object, age int64) []Update {
	meta := MetaOf(victim)
	k, ok := some(t, slices.DeleteFunc(h.free(kind), func(k source.Key) bool {
		return contestedWithin(kind) && k.Namespace != meta.Namespace
	}))
	if !ok {
		return nil
	}
	objects := drawObjects(t, k)[:1]
	if rapid.Bool().Draw(t, "alike") { // in all but its name
		m := *MetaOf(objects[0])
		objects[0] = Clone(victim)
		*MetaOf(objects[0]) = m
	}
	claim(objects[0], victim)
	MetaOf(objects[0]).Created = meta.Created + age
	return []Update{h.set(k, objects)}
}

// contestedWithin tells whether only objects of one namespace contest something.
func contestedWithin(kind source.Kind) bool {
	return kind == source.DestinationRule || kind == source.Sidecar || kind == source.PeerAuthentication
}

// claim makes o contest what other has.
func claim(o, other model.Object) {
	switch o := o.(type) {
	case *model.Service:
		o.Host = other.(*model.Service).Host
	case *model.VirtualService:
		o.Hosts = slices.Clone(other.(*model.VirtualService).Hosts[:1])
	case *model.DestinationRule:
		o.Host, o.Selector = other.(*model.DestinationRule).Host, other.(*model.DestinationRule).Selector
	case *model.Sidecar:
		o.Selector = other.(*model.Sidecar).Selector
	case *model.Guard:
		o.Selector = other.(*model.Guard).Selector
	case *model.Gateway:
		o.Selector = other.(*model.Gateway).Selector
		o.Servers = Clone(other.(*model.Gateway).Servers)
	}
}

func (h *History) abdicate(t *rapid.T, kind source.Kind) []Update {
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

func (h *History) relabel(t *rapid.T, kind source.Kind) []Update {
	k, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	objects := Clone(h.present[k])
	for _, o := range objects {
		labels := one(t, "labels", labelSets...)
		switch o := o.(type) {
		case *model.Workload:
			o.Labels = labels
		case *model.Namespace:
			o.Labels = labels
		case *model.Service:
			o.Selector = labels
		case *model.DestinationRule:
			o.Selector = labels
		case *model.Sidecar:
			o.Selector = labels
		case *model.Guard:
			o.Selector = labels
		case *model.Gateway:
			o.Selector = labels
		}
	}
	return []Update{h.set(k, objects)}
}

// shift takes an endpoint out of a slice and puts it into another of the same service, in one batch; for a while it may be in both.
func (h *History) shift(t *rapid.T, kind source.Kind) []Update {
	var full []source.Key
	for _, k := range h.keys(kind) {
		if len(h.present[k][0].(*model.EndpointSlice).Hosts) > 0 {
			full = append(full, k)
		}
	}
	k, ok := some(t, full)
	if !ok {
		return nil
	}
	from := Clone(h.present[k][0]).(*model.EndpointSlice)
	to := k
	to.Name = one(t, "into", slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == k.Name })...)
	into := Clone(from)
	into.Name, into.Hosts = to.Name, nil
	if known := h.present[to]; known != nil && known[0].(*model.EndpointSlice).Service == from.Service {
		into = Clone(known[0]).(*model.EndpointSlice)
	}
	moved := from.Hosts[0]
	if !slices.ContainsFunc(into.Hosts, func(o model.SliceHost) bool { return o.Address == moved.Address }) {
		into.Hosts = append(into.Hosts, moved)
	}
	updates := []Update{h.set(to, []model.Object{into})}
	if !rarely(t, 3, "both") {
		from.Hosts = from.Hosts[1:]
		updates = append(updates, h.set(k, []model.Object{from}))
	}
	return updates
}

// sound tells whether ingest might give these objects.
func sound(objects []model.Object) bool {
	seen := map[model.Host]bool{}
	for _, o := range objects {
		switch o := o.(type) {
		case *model.Service:
			if seen[o.Host] || !distinct(o.Ports, func(p model.ServicePort) any { return p.Port }) || !distinct(o.Ports, func(p model.ServicePort) any { return p.Name }) {
				return false
			}
			seen[o.Host] = true
		case *model.VirtualService:
			return distinct(o.Hosts, func(h model.Host) any { return h })
		case *model.EndpointSlice:
			return distinct(o.Hosts, func(h model.SliceHost) any { return h.Address }) && distinct(o.Ports, func(p model.SlicePort) any { return p.Name })
		}
	}
	return true
}

func distinct[T any](list []T, key func(T) any) bool {
	seen := map[any]bool{}
	for _, item := range list {
		if k := key(item); seen[k] {
			return false
		}
		seen[key(item)] = true
	}
	return true
}
