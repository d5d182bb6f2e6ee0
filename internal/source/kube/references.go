package kube

import (
	"context"
	"slices"
	"sync"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// maxReferences is how many ConfigMaps are watched because other objects name them. Each is a watch
// of its own. Further ones are not read, as if they were not there, and reported.
const maxReferences = 512

// references keeps a watch of each ConfigMap that an object names for its authorities, and of no
// other: ConfigMaps are many, large, and nobody else's business. Watchers note what is named, under
// the lock; Run starts and stops the watches.
type references struct {
	source *Source

	mu      sync.Mutex
	by      map[source.Key][]source.Key // what each object names
	named   map[source.Key]int          // how many objects name it
	changed bool

	watches map[source.Key]*referenceWatch // used by Run alone
}

// referenceWatch is the watch of one ConfigMap.
type referenceWatch struct {
	*watchSet
	resource *resource
}

func newReferences(s *Source) *references {
	return &references{
		source: s, by: map[source.Key][]source.Key{}, named: map[source.Key]int{},
		watches: map[source.Key]*referenceWatch{},
	}
}

// note takes what changed objects name. It wakes Run if that is something else than before.
func (r *references) note(changes []source.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		if c.Key.Kind == kinds.BackendTLSPolicy || c.Key.Kind == kinds.KubernetesGateway {
			r.replace(c.Key, r.source.namedBy(c))
		}
	}
	if r.changed {
		r.source.notifyListed()
	}
}

func (r *references) replace(k source.Key, now []source.Key) {
	was := r.by[k]
	if slices.Equal(was, now) {
		return
	}
	if r.by[k] = now; len(now) == 0 {
		delete(r.by, k)
	}
	for _, name := range now {
		r.named[name]++
	}
	for _, name := range was {
		if r.named[name]--; r.named[name] == 0 {
			delete(r.named, name)
		}
	}
	r.changed = true
}

// wanted returns the ConfigMaps to watch, and one that is too many.
func (r *references) wanted() (wanted map[source.Key]bool, left *source.Key, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if changed, r.changed = r.changed, false; !changed {
		return nil, nil, false
	}
	names := make([]source.Key, 0, len(r.named))
	for name := range r.named {
		names = append(names, name)
	}
	slices.SortFunc(names, source.Key.Compare)
	if len(names) > maxReferences {
		left, names = &names[maxReferences], names[:maxReferences]
	}
	wanted = make(map[source.Key]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	return wanted, left, true
}

// apply starts and stops watches. What nobody names any more is delivered as deleted.
func (r *references) apply(ctx context.Context) {
	wanted, left, changed := r.wanted()
	if !changed {
		return
	}
	s := r.source
	for name, w := range r.watches {
		if wanted[name] {
			continue
		}
		w.stop()
		delete(r.watches, name)
		var e source.Event
		appendUpdate(s.fingerprints.of(w.resource).get(name), update{entry{key: name}, time.Now()}, &e)
		s.fingerprints.remove(w.resource)
		s.send(e)
	}
	for name := range wanted {
		if r.watches[name] == nil {
			one := referenced(name)
			s.fingerprints.add(one)
			r.watches[name] = &referenceWatch{s.start(ctx, "", nil, []*resource{one}), one}
		}
	}
	s.send(source.Event{Reports: []source.Report{{Origin: "references", Problems: tooMany(left)}}})
}

func tooMany(left *source.Key) []source.Problem {
	if left == nil {
		return nil
	}
	return []source.Problem{{
		Severity: source.Error, Object: *left,
		Message: "is named, but not read, as are all that come after it: too many ConfigMaps are named",
		Want:    "ConfigMaps that several policies of a namespace share",
	}}
}

// delivered reports whether all that is named has been listed.
func (r *references) delivered() bool {
	for _, w := range r.watches {
		if !w.delivered() {
			return false
		}
	}
	return true
}

func (r *references) stop() {
	for _, w := range r.watches {
		w.cancel()
	}
	for _, w := range r.watches {
		w.stop()
	}
}

// referenced returns the resource of one ConfigMap with authorities.
func referenced(name source.Key) *resource {
	d := kinds.Of(kinds.ConfigMap)
	r := &resource{
		kind: d.Kind, GroupVersionResource: d.GroupVersionResource(), versions: d.Versions[:1],
		watch:   kinds.Watch{Optional: true},
		builtin: builtin{trim: trimmed(trimBundle)},
	}
	r.only(name.Namespace, name.Name)
	return r
}

// namedBy returns the ConfigMaps that an object names, sorted, each once. Those that are watched
// anyway are none of them.
func (s *Source) namedBy(c source.Change) []source.Key {
	var all []source.Key
	add := func(namespace string, name gatewayv1.ObjectName) {
		own := namespace == s.o.RootNamespace &&
			(string(name) == s.o.ConfigMap || string(name) == kinds.KeySetsConfigMap(s.o.ConfigMap))
		if name != "" && !own {
			all = append(all, source.Key{Kind: kinds.ConfigMap, Namespace: namespace, Name: string(name)})
		}
	}
	switch o := c.Object.(type) {
	case *gatewayv1.BackendTLSPolicy:
		for _, ref := range o.Spec.Validation.CACertificateRefs {
			if ref.Kind == "ConfigMap" {
				add(c.Key.Namespace, ref.Name)
			}
		}
	case *gatewayv1.Gateway:
		for _, ref := range frontendReferences(o) {
			namespace := c.Key.Namespace
			if ref.Namespace != nil {
				namespace = string(*ref.Namespace)
			}
			if ref.Kind == "ConfigMap" {
				add(namespace, ref.Name)
			}
		}
	}
	slices.SortFunc(all, source.Key.Compare)
	return slices.Compact(all)
}

// frontendReferences returns what a Gateway names for the certificates of its clients.
func frontendReferences(g *gatewayv1.Gateway) []gatewayv1.ObjectReference {
	if g.Spec.TLS == nil || g.Spec.TLS.Frontend == nil {
		return nil
	}
	var all []gatewayv1.ObjectReference
	add := func(t gatewayv1.TLSConfig) {
		if t.Validation != nil {
			all = append(all, t.Validation.CACertificateRefs...)
		}
	}
	add(g.Spec.TLS.Frontend.Default)
	for _, port := range g.Spec.TLS.Frontend.PerPort {
		add(port.TLS)
	}
	return all
}
