package schedule

import (
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/ingest"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// convert is what the objects of a batch give, and those whose meaning changes with the mesh configuration in it.
func (l *Loop) convert(batch []source.Change) []state.Update {
	meshBefore := l.meshNow()
	updates := make([]state.Update, len(batch))
	for i, c := range batch {
		updates[i] = l.convertOne(c)
	}
	meshNow := l.meshNow()
	if model.Same(&meshBefore, &meshNow) {
		return updates
	}
	var observed time.Time
	fresh := map[source.Key]bool{}
	for i, c := range batch {
		fresh[c.Key] = true
		if c.Key == l.o.Converter.MeshKey() {
			observed = c.ObservedAt
		}
		if kinds.Of(c.Key.Kind).DependsOnMesh { // it may have been converted before the mesh configuration was
			updates[i] = l.convertOne(c)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(l.kept), source.Key.Compare) {
		if !fresh[k] {
			u := l.convertOne(l.kept[k])
			u.Observed = observed // it changes because of the mesh configuration
			updates = append(updates, u)
		}
	}
	return updates
}

// meshNow is the mesh configuration by which objects are converted, with what else all of them depend on.
func (l *Loop) meshNow() model.MeshConfig {
	m := l.mesh
	m.Ingress.Classes = slices.Sorted(maps.Keys(l.ingressClasses))
	return m
}

func (l *Loop) convertOne(c source.Change) state.Update {
	u := state.Update{Key: c.Key, Observed: c.ObservedAt}
	delete(l.kept, c.Key)
	if c.Key.Kind == kinds.IngressClass {
		delete(l.ingressClasses, c.Key.Name)
	}
	l.o.Problems.NoteOrigin(c)
	if c.Object == nil {
		l.bridges.learn(c.Key, ingest.Result{})
		l.o.Problems.SetIngest(c.Key, nil)
		if c.Key == l.o.Converter.MeshKey() {
			l.mesh = l.o.Mesh
		}
		return u
	}
	result := l.o.Converter.Convert(c, l.meshNow())
	l.bridges.learn(c.Key, result)
	l.o.Problems.SetIngest(c.Key, result.Problems)
	u.Objects = result.Objects
	for _, o := range u.Objects {
		if mesh, ok := o.(*model.MeshConfig); ok {
			l.mesh = *mesh
		}
	}
	if c.Key.Kind == kinds.IngressClass && len(u.Objects) > 0 {
		l.ingressClasses[c.Key.Name] = true
	}
	if kinds.Of(c.Key.Kind).DependsOnMesh {
		l.kept[c.Key] = c
	}
	return u
}
