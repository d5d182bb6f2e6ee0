package compile

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/source"
)

// cause is an object whose change touches something: its place in impact.objects.
type cause int32

// noObject is the cause of what no change of an object touches: a class that begins, or a changed
// mesh configuration.
const noObject cause = 0

// causes is a set whose elements each have a cause: of several the first in impact.objects.
type causes[K comparable] map[K]cause

func (c causes[K]) add(key K, by cause) {
	if was, has := c[key]; !has || by < was {
		c[key] = by
	}
}

func (c causes[K]) has(key K) bool {
	_, has := c[key]
	return has
}

// with is add for a set that stays nil where most steps have no such element.
func (c causes[K]) with(key K, by cause) causes[K] {
	if c == nil {
		c = causes[K]{}
	}
	c.add(key, by)
	return c
}

// sortedBy returns the elements in an order.
func (c causes[K]) sortedBy(compare func(a, b K) int) []K {
	return slices.SortedFunc(maps.Keys(c), compare)
}

func sortedKeys[K cmp.Ordered](c causes[K]) []K { return c.sortedBy(cmp.Compare[K]) }

// because makes an object the cause of what is added from here on, and returns it.
func (m *impact) because(object source.Key) cause {
	m.objects = append(m.objects, object)
	m.by = cause(len(m.objects) - 1)
	return m.by
}

// causeOf returns the cause that an object is.
func (m *impact) causeOf(object source.Key) cause {
	if at := slices.Index(m.objects, object); at >= 0 {
		return cause(at)
	}
	m.objects = append(m.objects, object)
	return cause(len(m.objects) - 1)
}

// objectsOf returns the objects that are causes, sorted, each once.
func (m *impact) objectsOf(units causes[unit]) []source.Key {
	found := map[source.Key]bool{}
	for _, by := range units {
		if by != noObject {
			found[m.objectOf(by)] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), source.Key.Compare)
}

// objectOf returns the object that a cause is, the zero Key for noObject.
func (m *impact) objectOf(by cause) source.Key { return m.objects[by] }
