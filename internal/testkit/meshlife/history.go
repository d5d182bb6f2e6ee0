package meshlife

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Update is what one source object is from now on: the model objects that it gives, none when it
// goes away.
type Update struct {
	Key     source.Key
	Objects []model.Object
}

// Change is what happens to a mesh at once: of what sort, to which kind of object, and the updates
// that say so.
type Change struct {
	Verb    Verb
	Kind    kinds.Kind
	Updates []Update
}

// History is the life of one mesh. It is not safe for concurrent use.
type History struct {
	present map[source.Key][]model.Object
	gone    map[source.Key]bool
	pools   *pools
	// focus are two kinds of objects that more than others happen to, so that what happens to both
	// at once is met.
	focus []kinds.Kind
	// plain meshes have little in them that hides things from proxies, so that most changes have an
	// effect.
	plain bool
}

// NewHistory begins with an empty mesh.
func NewHistory() *History {
	return &History{present: map[source.Key][]model.Object{}, gone: map[source.Key]bool{}, pools: newPools()}
}

// Fork returns a history that goes on from here on its own.
func (h *History) Fork() *History {
	f := *h
	f.present, f.gone = maps.Clone(h.present), maps.Clone(h.gone)
	return &f
}

// Present are the objects that there are now, by key, as copies that share nothing with any update.
func (h *History) Present() []Update {
	var list []Update
	for _, k := range slices.SortedFunc(maps.Keys(h.present), source.Key.Compare) {
		list = append(list, Update{Key: k, Objects: Clone(h.present[k])})
	}
	return list
}

// howMany objects of each kind a mesh may begin with: endpoints matter where there are services and
// pods, and a Sidecar hides most of what happens.
var howMany = map[kinds.Kind][]int{
	kinds.Service:             {0, 6, 12},
	kinds.ServiceEntry:        {0, 2, 4},
	kinds.VirtualService:      {0, 3, 6},
	kinds.DestinationRule:     {0, 2, 4},
	kinds.Sidecar:             {0, 1, 3},
	kinds.Gateway:             {0, 2, 3},
	kinds.Pod:                 {0, 6, 12},
	kinds.EndpointSlice:       {0, 5, 10},
	kinds.Namespace:           {0, 2},
	kinds.Node:                {0, 2, 2},
	kinds.ConfigMap:           {0, 1},
	kinds.AuthorizationPolicy: {0, 0, 1}, kinds.PeerAuthentication: {0, 2, 5},
	kinds.RequestAuthentication: {0, 1, 2}, KeySets: {0, 1, 1}, kinds.Telemetry: {0, 1, 3},
	kinds.ProxyConfig: {0, 1, 2}, kinds.EnvoyFilter: {0, 0, 2},
	kinds.Secret: {0, 3, 6}, kinds.Ingress: {0, 1, 2}, kinds.WorkloadEntry: {0, 2, 4},
}

// Begin draws the objects that a mesh begins with.
func (h *History) Begin(t *rapid.T) []Update {
	h.plain = rapid.Bool().Draw(t, "plain")
	h.focus = rapid.SliceOfNDistinct(rapid.SampledFrom(Kinds), 2, 2, rapid.ID).Draw(t, "focus")
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
	drawn := Tweak // half of all: there is so much to tweak
	if rapid.Bool().Draw(t, "another verb") {
		drawn = rapid.SampledFrom(Verbs).Draw(t, "verb")
	}
	return h.Make(t, drawn, rapid.SampledFrom(h.kindsFor(drawn, rapid.Bool().Draw(t, "in focus"))).Draw(t, "kind"))
}

// kindsFor are those that a sort of change may be drawn of: of what has gone something may return,
// and focused it is a kind of the focus, if it can be.
func (h *History) kindsFor(verb Verb, focused bool) []kinds.Kind {
	all := verb.Kinds()
	narrow := func(to func(kinds.Kind) bool) {
		if left := slices.DeleteFunc(slices.Clone(all), func(k kinds.Kind) bool { return !to(k) }); len(left) > 0 {
			all = left
		}
	}
	if verb == Return {
		narrow(func(k kinds.Kind) bool {
			return slices.ContainsFunc(h.free(k), func(key source.Key) bool { return h.gone[key] })
		})
	}
	if focused {
		narrow(func(k kinds.Kind) bool { return slices.Contains(h.focus, k) })
	}
	return all
}

// plain takes away what hides an object, or holds for some proxies only.
func plain(o model.Object) {
	switch o := o.(type) {
	case *model.Service:
		o.ExportTo = model.Exports{All: true}
	case *model.DestinationRule:
		o.ExportTo, o.Selector = model.Exports{All: true}, model.Labels{}
	case *model.RootRoutes:
		plain(&o.VirtualService)
	case *model.DelegateRoutes:
		o.ExportTo = model.Exports{All: true}
		plainMatches(o.HTTP)
	case *model.VirtualService:
		o.ExportTo = model.Exports{All: true}
		plainMatches(o.HTTP)
		for _, r := range o.TCP {
			for _, m := range r.Matches {
				m.SourceLabels, m.SourceNamespace, m.Gateways = model.Labels{}, "", nil
			}
		}
	case *model.Gateway:
		o.Selector = model.Labels{}
	}
}

func plainMatches(routes []*model.HTTPRoute) {
	for _, r := range routes {
		for _, m := range r.Matches {
			m.SourceLabels, m.SourceNamespace, m.Gateways = model.Labels{}, "", nil
		}
	}
}

// Make draws a change of a sort to a kind of object; where there is nothing to change in this way
// yet, one on the way there.
func (h *History) Make(t *rapid.T, wanted Verb, kind kinds.Kind) Change {
	// one of the last three is always possible
	for _, verb := range []Verb{wanted, verbs[wanted].before, Create, Return, Tweak} {
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
	if h.plain {
		for _, o := range objects {
			plain(o)
		}
	}
	h.present[k] = objects
	for _, o := range objects {
		u.Objects = append(u.Objects, h.pools.converted(o))
	}
	return u
}

// keys are those of a kind that are present.
func (h *History) keys(kind kinds.Kind) []source.Key {
	return slices.DeleteFunc(slices.SortedFunc(maps.Keys(h.present), source.Key.Compare), func(k source.Key) bool {
		return k.Kind != kind
	})
}

// free are keys of a kind that are not present.
func (h *History) free(kind kinds.Kind) []source.Key {
	var all []source.Key
	for _, namespace := range namespaces {
		switch kind {
		case kinds.ConfigMap:
			all = []source.Key{meshKey}
		case KeySets:
			all = []source.Key{keySetsKey}
		case kinds.Namespace:
			all = append(all, source.Key{Kind: kind, Name: namespace})
		case kinds.Node:
			all = nil
			for _, name := range nodes {
				all = append(all, source.Key{Kind: kind, Name: name})
			}
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

// contest is what objects claim of which one alone can be first: a host, or a namespace's Sidecar;
// empty for what nobody contests.
func contest(o model.Object) string {
	switch o := o.(type) {
	case *model.Service:
		return "service " + string(o.Host)
	case *model.VirtualService:
		return "routes " + string(o.Hosts[0])
	case *model.RootRoutes:
		return contest(&o.VirtualService)
	case *model.DestinationRule:
		return "rule " + o.Namespace + " " + string(o.Host) + " " + o.Selector.String()
	case *model.Sidecar:
		return "sidecar " + o.Namespace + " " + o.Selector.String()
	case *model.PeerAuthentication:
		return "plaintext " + o.Namespace + " " + o.Selector.String()
	case *model.Telemetry:
		return "telemetry " + o.Namespace + " " + o.Selector.String() + strings.Join(o.Gateways, " ")
	case *model.ProxyConfig:
		return "start " + o.Namespace + " " + o.Selector.String()
	case *model.Gateway:
		return "gateway" // servers of a port are merged, the oldest Gateway's first
	}
	return ""
}

// claimants are the source objects that contest something, in the total order, by what it is; only
// of what several claim.
func (h *History) claimants() map[string][]source.Key {
	type claim struct {
		key  source.Key
		meta *model.Meta
	}
	claims := map[string][]claim{}
	for k, objects := range h.present {
		for _, o := range objects {
			if c := contest(o); c != "" {
				claims[c] = append(claims[c], claim{k, model.MetaOf(o)})
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

// Any is an update out of any history: one object with lists and policies of its own, or, once in
// four times, none.
func Any(t *rapid.T) Update {
	k := drawKey(t, rapid.SampledFrom(Kinds).Draw(t, "kind"))
	u := Update{Key: k, Objects: drawObjects(t, k)[:1]}
	if rarely(t, 4, "deleted") {
		u.Objects = nil
	}
	return u
}
