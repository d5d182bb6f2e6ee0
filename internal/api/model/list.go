package model

import (
	"hash/maphash"
	"iter"
	"runtime"
	"slices"
	"sync"
	"weak"
)

// List is an immutable list that an Interner hash-conses: equal content from one Interner is one
// pointer. So a *List may stand in a translation input and is compared as a pointer. A nil *List is
// the empty list.
type List[T comparable] struct{ items []T }

// Len returns the number of items.
func (l *List[T]) Len() int {
	if l == nil {
		return 0
	}
	return len(l.items)
}

// At returns the item at i.
func (l *List[T]) At(i int) T { return l.items[i] }

// Contains reports whether an item is in the list.
func (l *List[T]) Contains(item T) bool { return l != nil && slices.Contains(l.items, item) }

// All yields the items in order.
func (l *List[T]) All() iter.Seq[T] {
	if l == nil {
		return func(func(T) bool) {}
	}
	return slices.Values(l.items)
}

// Interner hash-conses lists. It holds them weakly, so unused lists are collected. It is safe for
// concurrent use.
type Interner[T comparable] struct {
	mu    sync.Mutex
	seed  maphash.Seed
	lists map[uint64][]weak.Pointer[List[T]]
}

// NewInterner returns an interner.
func NewInterner[T comparable]() *Interner[T] {
	return &Interner[T]{seed: maphash.MakeSeed(), lists: map[uint64][]weak.Pointer[List[T]]{}}
}

// List returns the one list of these items. It copies them.
func (in *Interner[T]) List(items []T) *List[T] {
	if len(items) == 0 {
		return nil
	}
	h := in.hash(items)
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, w := range in.lists[h] {
		if l := w.Value(); l != nil && slices.Equal(l.items, items) {
			return l
		}
	}
	l := &List[T]{items: slices.Clone(items)}
	in.lists[h] = append(in.lists[h], weak.Make(l))
	runtime.AddCleanup(l, in.sweep, h)
	return l
}

func (in *Interner[T]) hash(items []T) uint64 {
	var h maphash.Hash
	h.SetSeed(in.seed)
	for _, item := range items {
		maphash.WriteComparable(&h, item)
	}
	return h.Sum64()
}

func (in *Interner[T]) sweep(h uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	alive := slices.DeleteFunc(in.lists[h], func(w weak.Pointer[List[T]]) bool { return w.Value() == nil })
	if len(alive) == 0 {
		delete(in.lists, h)
		return
	}
	in.lists[h] = alive
}
