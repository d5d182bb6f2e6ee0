package model

import (
	"cmp"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Meta is what all objects have. Created and UID decide conflicts.
type Meta struct {
	Kind      kinds.Kind
	Namespace string
	Name      string
	Created   int64 // Unix seconds; 0 when unknown, as in a directory
	UID       string
	// Owner is the name of the object of this Kind that this one was made of, if it is not that itself: what an Ingress means
	// is several objects, with names of their own.
	Owner string
}

// Key names the object that people wrote.
func (m *Meta) Key() source.Key {
	return source.Key{Kind: m.Kind, Namespace: m.Namespace, Name: cmp.Or(m.Owner, m.Name)}
}

// Compare is the one total order for every conflict among objects of one kind: the smaller wins. A Service of Kubernetes
// comes before a ServiceEntry, then the older one, then namespace, name and UID.
func (m *Meta) Compare(o *Meta) int {
	return cmp.Or(
		cmp.Compare(rank(m.Kind), rank(o.Kind)),
		cmp.Compare(m.Created, o.Created),
		cmp.Compare(m.Namespace, o.Namespace),
		cmp.Compare(m.Name, o.Name),
		cmp.Compare(m.UID, o.UID),
	)
}

func rank(k kinds.Kind) int {
	if k == kinds.ServiceEntry {
		return 1
	}
	return 0
}
