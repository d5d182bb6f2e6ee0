package flame

import (
	"cmp"
	"slices"
)

// Tree is a function called by its parent: the root stands for all there is.
type Tree struct {
	// Name is the function's, with the path of its package.
	Name string
	// Value is what it and all that it called took, in the profile's unit.
	Value    int64
	Children []*Tree
	byName   map[string]*Tree // while samples are put together
}

// add counts what was taken with such a stack.
func (t *Tree) add(stack []string, value int64) {
	t.Value += value
	for _, name := range stack {
		t = t.child(name)
		t.Value += value
	}
}

func (t *Tree) child(name string) *Tree {
	if c := t.byName[name]; c != nil {
		return c
	}
	if t.byName == nil {
		t.byName = map[string]*Tree{}
	}
	c := &Tree{Name: name}
	t.byName[name], t.Children = c, append(t.Children, c)
	return c
}

// order puts the widest first, among equals by name.
func (t *Tree) order() {
	t.byName = nil
	slices.SortFunc(t.Children, func(a, b *Tree) int { return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Name, b.Name)) })
	for _, c := range t.Children {
		c.order()
	}
}

// Prune is the tree without the functions that took less than a share of all: 0.005 leaves those with half a percent.
func (t *Tree) Prune(share float64) *Tree { return t.atLeast(share * float64(t.Value)) }

func (t *Tree) atLeast(value float64) *Tree {
	kept := &Tree{Name: t.Name, Value: t.Value}
	for _, c := range t.Children {
		if float64(c.Value) >= value {
			kept.Children = append(kept.Children, c.atLeast(value))
		}
	}
	return kept
}

// depth is how many functions are on top of each other.
func (t *Tree) depth() (most int) {
	for _, c := range t.Children {
		most = max(most, c.depth())
	}
	return most + 1
}
