// Package forkmap owns maps that fork. What is tried on a fork costs what is tried, and leaves the
// original as it was.
//
// It imports nothing of the module.
package forkmap

import (
	"maps"
	"slices"
	"weak"
)

// Map is a map that forks. A fork begins empty beside its parent and costs nothing; it answers as
// the parent did at that moment. What either puts or drops afterwards, the other does not see. A
// parent with forks in use hands them what it is about to change, so a change costs one entry more
// for each of them. One goroutine at a time uses a Map and its forks.
type Map[K comparable, V any] struct {
	entries map[K]V
	parent  *Map[K, V]                // nil of a map that is no fork, which has all in entries
	dropped map[K]struct{}            // of a fork: what the parent has and it has not
	forks   []weak.Pointer[Map[K, V]] // those that nobody uses any more are nil
}

// New returns an empty Map.
func New[K comparable, V any]() *Map[K, V] { return &Map[K, V]{entries: map[K]V{}} }

// Fork returns a Map that answers as this one does now, whatever becomes of this one.
func (m *Map[K, V]) Fork() *Map[K, V] {
	f := &Map[K, V]{entries: map[K]V{}, parent: m, dropped: map[K]struct{}{}}
	m.forks = append(m.inUse(), weak.Make(f))
	return f
}

// Get returns the value at a key, the zero value if there is none.
func (m *Map[K, V]) Get(k K) V {
	v, _ := m.Find(k)
	return v
}

// Find is Get that also reports whether there is a value.
func (m *Map[K, V]) Find(k K) (v V, has bool) {
	if v, has = m.entries[k]; has || m.parent == nil {
		return v, has
	}
	if _, is := m.dropped[k]; is {
		return v, false
	}
	return m.parent.Find(k)
}

// Put sets the value at a key.
func (m *Map[K, V]) Put(k K, v V) {
	m.handOver(k)
	m.entries[k] = v
	if m.parent != nil {
		delete(m.dropped, k)
	}
}

// Drop removes the value at a key, if there is one.
func (m *Map[K, V]) Drop(k K) {
	m.handOver(k)
	delete(m.entries, k)
	if m.parent != nil {
		m.dropped[k] = struct{}{}
	}
}

// All returns what the Map answers. That of a Map that is no fork must not be changed, and is valid
// until the next change. It costs the size of a fork's parents.
func (m *Map[K, V]) All() map[K]V {
	if m.parent == nil {
		return m.entries
	}
	all := maps.Clone(m.parent.All())
	for k := range m.dropped {
		delete(all, k)
	}
	maps.Copy(all, m.entries)
	return all
}

// Own returns how many keys a fork, or a Map that is none, keeps something for.
func (m *Map[K, V]) Own() int { return len(m.entries) + len(m.dropped) }

// handOver gives the forks what stands at a key, which is about to change.
func (m *Map[K, V]) handOver(k K) {
	if len(m.forks) == 0 {
		return
	}
	m.forks = m.inUse()
	v, has := m.Find(k)
	for _, p := range m.forks {
		if f := p.Value(); f != nil {
			f.keep(k, v, has)
		}
	}
}

// keep takes over what the parent has at a key, unless the fork has something of its own there.
func (m *Map[K, V]) keep(k K, v V, has bool) {
	_, put := m.entries[k]
	_, dropped := m.dropped[k]
	switch {
	case put || dropped:
	case has:
		m.entries[k] = v
	default:
		m.dropped[k] = struct{}{}
	}
}

func (m *Map[K, V]) inUse() []weak.Pointer[Map[K, V]] {
	return slices.DeleteFunc(m.forks, func(p weak.Pointer[Map[K, V]]) bool { return p.Value() == nil })
}
