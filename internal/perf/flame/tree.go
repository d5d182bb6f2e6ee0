package flame

import (
	"cmp"
	"slices"
)

// Tree is a function with those that it called. The root stands for the whole profile.
type Tree struct {
	// Name is the function's name with the path of its package.
	Name string
	// Value is what the function and its callees took, in the profile's unit.
	Value    int64
	Children []*Tree
	byName   map[string]*Tree // while samples are merged
}

// add counts a sample with a stack.
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

// order sorts children by descending value, then by name.
func (t *Tree) order() {
	t.byName = nil
	slices.SortFunc(t.Children, func(a, b *Tree) int {
		return cmp.Or(
			cmp.Compare(b.Value, a.Value), cmp.Compare(a.Name, b.Name),
		)
	})
	for _, c := range t.Children {
		c.order()
	}
}

// Prune returns the tree without functions below a share of the total: 0.005 keeps those with at
// least half a percent.
func (t *Tree) Prune(share float64) *Tree { return t.pruneBelow(share * float64(t.Value)) }

func (t *Tree) pruneBelow(value float64) *Tree {
	kept := &Tree{Name: t.Name, Value: t.Value}
	for _, c := range t.Children {
		if float64(c.Value) >= value {
			kept.Children = append(kept.Children, c.pruneBelow(value))
		}
	}
	return kept
}

// depth returns the length of the longest stack.
func (t *Tree) depth() (most int) {
	for _, c := range t.Children {
		most = max(most, c.depth())
	}
	return most + 1
}
