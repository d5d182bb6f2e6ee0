package schedule

import (
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// reconverter converts changes, and converts objects again when a mesh configuration that they
// depend on changes.
type reconverter struct {
	converter *convert.Converter
	// converted is told of each conversion; of an object that went away it gets the zero Result.
	converted func(source.Change, convert.Result)

	// defaults hold until an object says otherwise, and mesh holds now, but for the classes.
	defaults, mesh model.MeshConfig
	// ingressClasses are those of Istio's controller: which Ingresses are for the mesh depends on
	// them.
	ingressClasses map[string]bool
	// kept are the latest changes of the objects to convert again.
	kept map[source.Key]source.Change
}

func newReconverter(
	c *convert.Converter, defaults model.MeshConfig, converted func(source.Change, convert.Result),
) reconverter {
	return reconverter{
		converter: c, converted: converted, defaults: defaults, mesh: defaults,
		ingressClasses: map[string]bool{}, kept: map[source.Key]source.Change{},
	}
}

// fork returns a reconverter that remembers for itself, and tells others of its conversions.
func (r *reconverter) fork(converted func(source.Change, convert.Result)) reconverter {
	forked := *r
	forked.converted = converted
	forked.ingressClasses, forked.kept = maps.Clone(r.ingressClasses), maps.Clone(r.kept)
	return forked
}

// convert returns the updates of a batch, and those of other objects whose meaning changes with the
// mesh configuration in it.
func (r *reconverter) convert(batch []source.Change) []state.Update {
	meshBefore := r.meshNow()
	updates := make([]state.Update, len(batch))
	for i, c := range batch {
		updates[i] = r.convertOne(c)
	}
	meshNow := r.meshNow()
	if model.Equal(&meshBefore, &meshNow) {
		return updates
	}
	var observed time.Time
	fresh := map[source.Key]bool{}
	for i, c := range batch {
		fresh[c.Key] = true
		if c.Key == r.converter.MeshKey() {
			observed = c.ObservedAt
		}
		if kinds.Of(c.Key.Kind).DependsOnMesh { // it may have been converted before the mesh configuration
			updates[i] = r.convertOne(c)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(r.kept), source.Key.Compare) {
		if !fresh[k] {
			u := r.convertOne(r.kept[k])
			u.Observed = observed // it changes because of the mesh configuration
			updates = append(updates, u)
		}
	}
	return updates
}

// meshNow is the mesh configuration by which objects are converted, with what else all of them
// depend on.
func (r *reconverter) meshNow() model.MeshConfig {
	m := r.mesh
	m.Ingress.Classes = slices.Sorted(maps.Keys(r.ingressClasses))
	return m
}

func (r *reconverter) convertOne(c source.Change) state.Update {
	u := state.Update{Key: c.Key, Observed: c.ObservedAt}
	delete(r.kept, c.Key)
	if c.Key.Kind == kinds.IngressClass {
		delete(r.ingressClasses, c.Key.Name)
	}
	if c.Object == nil {
		r.converted(c, convert.Result{})
		if c.Key == r.converter.MeshKey() {
			r.mesh = r.defaults
		}
		return u
	}
	result := r.preview(c)
	r.converted(c, result)
	u.Objects = result.Objects
	for _, o := range u.Objects {
		if mesh, ok := o.(*model.MeshConfig); ok {
			r.mesh = *mesh
		}
	}
	if c.Key.Kind == kinds.IngressClass && len(u.Objects) > 0 {
		r.ingressClasses[c.Key.Name] = true
	}
	if kinds.Of(c.Key.Kind).DependsOnMesh {
		r.kept[c.Key] = c
	}
	return u
}

// preview converts a change and remembers nothing.
func (r *reconverter) preview(c source.Change) convert.Result {
	return r.converter.Convert(c, r.meshNow())
}

// move notes where an object stands now.
func (r *reconverter) move(p source.Place) { move(r.kept, p) }
