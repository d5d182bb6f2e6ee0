package selected

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Source delivers the objects of another source that are of namespaces in the mesh, and those that
// are of none. A namespace without an object has its name for a label, as each has in Kubernetes.
type Source struct {
	upstream source.Source
	root     string
	mesh     string
}

// New returns a source that delivers what upstream does of the selected namespaces. The mesh
// configuration is the ConfigMap of a name ("istio" if it is empty) in the root namespace.
func New(upstream source.Source, root, mesh string) *Source {
	return &Source{upstream, root, cmp.Or(mesh, "istio")}
}

// Run implements source.Source.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	f := filter{
		mesh:      source.Key{Kind: kinds.ConfigMap, Namespace: s.root, Name: s.mesh},
		selection: NewSelection(), objects: map[string]map[source.Key]source.Change{}, in: map[string]bool{},
	}
	return s.upstream.Run(ctx, func(e source.Event) { sink(f.add(e)) })
}

// filter is what has come, and what of it was delivered.
type filter struct {
	mesh      source.Key
	selection *Selection
	objects   map[string]map[source.Key]source.Change // by namespace; those that are there
	in        map[string]bool                         // by namespace with objects: it was delivered
}

// add returns what is delivered of an event.
func (f *filter) add(e source.Event) source.Event {
	given := e.Changes
	e.Changes, e.Reports = make([]source.Change, 0, len(given)), slices.Clip(e.Reports)
	resolve := false
	for _, c := range given {
		if c.Key != f.mesh && c.Key.Kind != kinds.Namespace {
			continue
		}
		resolve = true
		if report := f.selection.Take(c); report != nil {
			e.Reports = append(e.Reports, *report)
		}
	}
	for _, c := range given {
		if f.isFiltered(c.Key) {
			resolve = f.note(c) || resolve
		}
		if !f.isFiltered(c.Key) || f.in[c.Key.Namespace] {
			e.Changes = append(e.Changes, c)
		}
	}
	if resolve {
		e.Changes = append(e.Changes, f.resolve()...)
	}
	f.move(e.Moved)
	e.Moved = slices.DeleteFunc(slices.Clone(e.Moved), func(p source.Place) bool {
		return f.isFiltered(p.Key) && !f.in[p.Key.Namespace]
	})
	return e
}

// isFiltered reports whether an object is delivered only if its namespace is in the mesh.
func (f *filter) isFiltered(k source.Key) bool { return k.Namespace != "" && k != f.mesh }

// note remembers a change, and reports whether its namespace is new.
func (f *filter) note(c source.Change) (isNew bool) {
	of := f.objects[c.Key.Namespace]
	if of == nil {
		of, isNew = map[source.Key]source.Change{}, true
		f.objects[c.Key.Namespace] = of
	}
	if of[c.Key] = c; c.Object == nil {
		delete(of, c.Key)
	}
	return isNew
}

func (f *filter) move(places []source.Place) {
	for _, p := range places {
		if c, known := f.objects[p.Key.Namespace][p.Key]; known {
			c.Origin = p.Origin
			f.objects[p.Key.Namespace][p.Key] = c
		}
	}
}

// resolve returns the objects of namespaces that come into the mesh, and the removals of those that
// leave it.
func (f *filter) resolve() (changes []source.Change) {
	for _, namespace := range slices.Sorted(maps.Keys(f.objects)) {
		now := f.selects(namespace)
		if now == f.in[namespace] {
			continue
		}
		f.in[namespace] = now
		of := f.objects[namespace]
		for _, key := range slices.SortedFunc(maps.Keys(of), source.Key.Compare) {
			c := of[key]
			if !now {
				c.Object = nil
			}
			changes = append(changes, c)
		}
	}
	return changes
}

// selects reports whether the selectors select a namespace.
func (f *filter) selects(namespace string) bool {
	if f.selection.selectors == nil {
		return true
	}
	set := labels.Set{corev1.LabelMetadataName: namespace}
	maps.Copy(set, f.selection.namespaces[namespace])
	return f.selection.matches(set)
}
