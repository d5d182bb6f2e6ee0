package model

import (
	"cmp"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Meta is embedded in all objects. Created and UID decide conflicts.
type Meta struct {
	Kind      kinds.Kind
	Namespace string
	Name      string
	Created   int64 // Unix seconds; 0 when unknown, as in a directory
	UID       string
	// Owner is the name of the object of this Kind from which this one was made, if their names
	// differ. One Ingress becomes several objects, with names of their own.
	Owner string
}

// Key names the object that users wrote.
func (m *Meta) Key() source.Key {
	return source.Key{Kind: m.Kind, Namespace: m.Namespace, Name: cmp.Or(m.Owner, m.Name)}
}

func (m *Meta) own() *Meta { return m }

// MetaOf returns the Meta of an object; nil for the mesh configuration, which has none.
func MetaOf(o Object) *Meta {
	if m, ok := o.(interface{ own() *Meta }); ok {
		return m.own()
	}
	return nil
}

// Compare is the total order for all conflicts among objects of one kind: the smaller wins. A
// Service of Kubernetes comes before a ServiceEntry, then the older object, then namespace, name
// and UID.
func (m *Meta) Compare(o *Meta) int {
	return cmp.Or(
		cmp.Compare(KindRank(m.Kind), KindRank(o.Kind)),
		cmp.Compare(m.Created, o.Created),
		cmp.Compare(m.Namespace, o.Namespace),
		cmp.Compare(m.Name, o.Name),
		cmp.Compare(m.UID, o.UID),
	)
}

// KindRank returns the place of a kind among those whose objects become the same: a Service comes
// before a ServiceEntry, and what adds filters in a kind of its own before an EnvoyFilter, which
// may name these filters.
func KindRank(k kinds.Kind) byte {
	switch k {
	case kinds.ServiceEntry, kinds.TrafficExtension:
		return 1
	case kinds.WasmPlugin:
		return 2
	case kinds.RateLimit:
		return 3
	case kinds.EnvoyFilter:
		return 4
	}
	return 0
}
