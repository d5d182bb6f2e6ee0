package meshlife

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
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
	Rename   Verb = "rename"   // an object goes, and one comes that is alike but for its name, in one batch
	// a destination gets another weight, port or subset, a TCP route other subnets, or a Gateway's
	// server another port
	Reroute Verb = "reroute"
	Shift   Verb = "shift" // an endpoint goes from one slice to another
	// a slice gets so many endpoints that a proxy may have them as collections, or has hardly any
	// left
	Crowd Verb = "crowd"
)

// Verbs are all of them.
var Verbs = slices.Sorted(maps.Keys(verbs))

// verb says which kinds a sort of change is for, and how one is drawn; nil when the mesh has
// nothing to change in this way, and then what would make it have something is drawn before.
type verb struct {
	kinds  []kinds.Kind
	draw   func(*History, *rapid.T, kinds.Kind) []Update
	before Verb
}

var verbs = map[Verb]verb{
	Create:   {Kinds, (*History).create, ""},
	Return:   {Kinds, (*History).bringBack, Delete},
	Recreate: {Kinds, (*History).recreate, ""},
	Tweak:    {Kinds, (*History).tweak, ""},
	Replace:  {Kinds, (*History).replace, ""},
	Delete:   {Kinds, (*History).remove, ""},
	Resend:   {Kinds, (*History).resend, ""}, Relist: {Kinds, (*History).relist, ""},
	Older:    {contested, (*History).older, ""},
	Younger:  {contested, (*History).younger, ""},
	Abdicate: {contested, (*History).abdicate, Younger},
	Rename:   {renamed, (*History).rename, ""},
	Reroute:  {[]kinds.Kind{kinds.VirtualService, kinds.Gateway, kinds.Ingress}, (*History).reroute, ""},
	Relabel:  {labelled, (*History).relabel, ""}, Shift: {[]kinds.Kind{kinds.EndpointSlice}, (*History).shift, ""},
	Crowd: {[]kinds.Kind{kinds.EndpointSlice}, (*History).crowd, ""},
}

var (
	contested = []kinds.Kind{
		kinds.Service,
		kinds.ServiceEntry,
		kinds.VirtualService,
		kinds.DestinationRule,
		kinds.Sidecar,
		kinds.Gateway,
		kinds.PeerAuthentication,
		kinds.Telemetry,
		kinds.ProxyConfig,
	}
	labelled = []kinds.Kind{kinds.Pod, kinds.WorkloadEntry, kinds.Namespace, kinds.Service, kinds.ServiceEntry,
		kinds.DestinationRule, kinds.Sidecar, kinds.Gateway,
		kinds.AuthorizationPolicy, kinds.PeerAuthentication, kinds.RequestAuthentication, kinds.Telemetry,
		kinds.ProxyConfig, kinds.EnvoyFilter, kinds.Ingress}
	// renamed are kinds whose names say nothing of what they are for.
	renamed = []kinds.Kind{kinds.ServiceEntry, kinds.VirtualService, kinds.DestinationRule, kinds.Sidecar,
		kinds.Gateway, kinds.EndpointSlice,
		kinds.AuthorizationPolicy, kinds.PeerAuthentication, kinds.RequestAuthentication, kinds.Telemetry,
		kinds.ProxyConfig, kinds.EnvoyFilter}
)

// Kinds are those that it can happen to.
func (v Verb) Kinds() []kinds.Kind { return verbs[v].kinds }

func (h *History) create(t *rapid.T, kind kinds.Kind) []Update {
	k, ok := some(t, slices.DeleteFunc(h.free(kind), func(k source.Key) bool { return h.gone[k] }))
	if !ok {
		return nil
	}
	return []Update{h.set(k, drawObjects(t, k))}
}

func (h *History) bringBack(t *rapid.T, kind kinds.Kind) []Update {
	k, ok := some(t, slices.DeleteFunc(h.free(kind), func(k source.Key) bool { return !h.gone[k] }))
	if !ok {
		return nil
	}
	return []Update{h.set(k, drawObjects(t, k))}
}

func (h *History) recreate(t *rapid.T, kind kinds.Kind) []Update {
	k, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	return []Update{{Key: k}, h.set(k, h.tweaked(t, k))}
}

func (h *History) tweak(t *rapid.T, kind kinds.Kind) []Update {
	k, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	return []Update{h.set(k, h.tweaked(t, k))}
}

// tweaked returns the objects of a key with one part changed, unless that makes what the conversion
// never gives.
func (h *History) tweaked(t *rapid.T, k source.Key) []model.Object {
	objects, other := Clone(h.present[k]), drawObjects(t, k)
	i := rapid.IntRange(0, len(objects)-1).Draw(t, "object")
	j := slices.IndexFunc(other, func(o model.Object) bool { return reflect.TypeOf(o) == reflect.TypeOf(objects[i]) })
	if j < 0 {
		return other
	}
	tweak(t, reflect.ValueOf(objects[i]).Elem(), reflect.ValueOf(other[j]).Elem())
	if !sound(objects) {
		return other
	}
	return objects
}

func (h *History) replace(t *rapid.T, kind kinds.Kind) []Update {
	k, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	return []Update{h.set(k, drawObjects(t, k))}
}

func (h *History) remove(t *rapid.T, kind kinds.Kind) []Update {
	k, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	return []Update{h.set(k, nil)}
}

func (h *History) resend(t *rapid.T, kind kinds.Kind) []Update {
	k, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	return []Update{h.set(k, h.present[k])}
}

func (h *History) relist(t *rapid.T, kind kinds.Kind) []Update {
	var list []Update
	for _, k := range h.keys(kind) {
		list = append(list, h.set(k, h.present[k]))
	}
	if list == nil {
		return nil
	}
	return rapid.Permutation(list).Draw(t, "order")
}

func (h *History) relabel(t *rapid.T, kind kinds.Kind) []Update {
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
		case *model.WorkloadEntry:
			o.Labels = labels
		case *model.Namespace:
			o.Labels = labels
		case *model.Service:
			o.Selector = labels
		case *model.DestinationRule:
			o.Selector = labels
		case *model.Sidecar:
			o.Selector = labels
		case *model.AuthorizationPolicy:
			o.Selector = labels
		case *model.PeerAuthentication:
			o.Selector = labels
		case *model.RequestAuthentication:
			o.Selector = labels
		case *model.Telemetry:
			o.Selector = labels
		case *model.ProxyConfig:
			o.Selector = labels
		case *model.EnvoyFilter:
			o.Selector = labels
		case *model.Gateway:
			o.Selector = labels
		}
	}
	return []Update{h.set(k, objects)}
}

func (h *History) rename(t *rapid.T, kind kinds.Kind) []Update {
	old, k, ok := h.besideSome(t, kind)
	if !ok {
		return nil
	}
	objects := named(k.Name, Clone(h.present[old]))
	return []Update{h.set(old, nil), h.set(k, objects)}
}

// Twin draws an object that is another one under a name of its own, but for one part, so that their
// names alone decide which of the two counts, and a Rename has an effect; false where there is
// none, or no name. Lives are not drawn of it.
func (h *History) Twin(t *rapid.T, kind kinds.Kind) (c Change, ok bool) {
	old, k, ok := h.besideSome(t, kind)
	if !ok {
		return c, false
	}
	return Change{Verb: Create, Kind: kind, Updates: []Update{h.set(k, named(k.Name, h.tweaked(t, old)))}}, true
}

// besideSome draws an object and a name of its namespace that is free.
func (h *History) besideSome(t *rapid.T, kind kinds.Kind) (object, free source.Key, ok bool) {
	if object, ok = some(t, h.keys(kind)); !ok {
		return object, free, false
	}
	free, ok = some(t, slices.DeleteFunc(h.free(kind), func(k source.Key) bool {
		return k.Namespace != object.Namespace
	}))
	return object, free, ok
}

func named(name string, objects []model.Object) []model.Object {
	for _, o := range objects {
		model.MetaOf(o).Name = name
	}
	return objects
}

func (h *History) reroute(t *rapid.T, kind kinds.Kind) []Update {
	k, ok := some(t, slices.DeleteFunc(h.keys(kind), func(k source.Key) bool {
		return kind != kinds.Gateway && len(leads(h.present[k])) == 0
	}))
	if !ok {
		return nil
	}
	objects := Clone(h.present[k])
	if g, ok := objects[0].(*model.Gateway); ok && kind == kinds.Gateway {
		g.Servers[rapid.IntRange(0, len(g.Servers)-1).Draw(t, "server")].Port = one(t, "port", ports...)
		return []Update{h.set(k, objects)}
	}
	if v, ok := objects[0].(*model.VirtualService); ok && len(v.TCP) > 0 && rarely(t, 3, "other subnets") {
		v.TCP[0].Matches[0].DestinationSubnets = one(t, "subnets", subnets...)
		return []Update{h.set(k, objects)}
	}
	d := rapid.SampledFrom(leads(objects)).Draw(t, "destination")
	other := drawDestinations(t)[0]
	switch rapid.IntRange(0, 2).Draw(t, "what") {
	case 0:
		d.Weight = other.Weight
	case 1:
		d.Port, d.PortName = other.Port, ""
		if kind == kinds.Ingress && rapid.Bool().Draw(t, "by name") {
			d.Port, d.PortName = 0, one(t, "port name", portNames...)
		}
	default:
		d.Subset = other.Subset
	}
	return []Update{h.set(k, objects)}
}

// leads are the destinations of all routes among the objects.
func leads(objects []model.Object) []*model.Destination {
	var found []*model.Destination
	for _, o := range objects {
		if v := routesOf(o); v != nil {
			found = append(found, destinations(v)...)
		}
		if d, ok := o.(*model.DelegateRoutes); ok {
			found = append(found, destinations(&model.VirtualService{HTTP: d.HTTP})...)
		}
	}
	return found
}

// destinations are those of all routes.
func destinations(v *model.VirtualService) []*model.Destination {
	var found []*model.Destination
	add := func(list []model.Destination) {
		for i := range list {
			found = append(found, &list[i])
		}
	}
	for _, r := range v.HTTP {
		add(r.Destinations)
		for i := range r.Mirrors {
			found = append(found, &r.Mirrors[i].Destination)
		}
	}
	for _, r := range v.TLS {
		add(r.Destinations)
	}
	for _, r := range v.TCP {
		add(r.Destinations)
	}
	return found
}

// shift takes an endpoint out of a slice and puts it into another of the same service, in one
// batch; for a while it may be in both.
func (h *History) shift(t *rapid.T, kind kinds.Kind) []Update {
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

// crowds are how many endpoints crowd leaves a slice with: mostly few, since many take long to
// compile, or so many as a session keeps in the form of collections, or brings into it.
var crowds = []int{1, 2, 3, 3, 105, 210}

func (h *History) crowd(t *rapid.T, kind kinds.Kind) []Update {
	k, ok := some(t, h.keys(kind))
	if !ok {
		return nil
	}
	slice := Clone(h.present[k][0]).(*model.EndpointSlice)
	slice.Hosts = nil
	from := rapid.IntRange(0, 5).Draw(t, "from")
	for i := range one(t, "how many", crowds...) {
		slice.Hosts = append(slice.Hosts, model.SliceHost{
			Address: fmt.Sprint("127.9.0.", from+i),
			Health:  model.Healthy,
			Node:    nodes[i%2],
		})
	}
	return []Update{h.set(k, []model.Object{slice})}
}
