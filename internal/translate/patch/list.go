package patch

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// list is a list of filters or routes that a patch changes.
type list[E proto.Message] struct {
	items []E
	// is reports whether an item is the one that a patch names; nil if it names none.
	is func(E) bool
	// at is where an item would stand that a patch names and that is not there; nil for nowhere.
	at *int
	// ends reports whether nothing may stand behind an item; nil if there are no such ones.
	ends func(E) bool
	// merge merges the value of a patch into an item. It reports whether the item can be changed.
	merge func(Patch, E) (bool, error)
}

// edit does what a patch says, and returns the list and to how many items it did so.
func (l list[E]) edit(p Patch, made func(Patch) (E, error)) ([]E, int, error) {
	switch p.Operation {
	case model.PatchMerge, model.PatchMergeLists:
		return l.merged(p)
	case model.PatchRemove:
		kept := slices.DeleteFunc(slices.Clone(l.items), func(e E) bool { return l.is != nil && l.is(e) })
		return kept, len(l.items) - len(kept), nil
	case model.PatchReplace:
		at := l.named()
		if at < 0 {
			return l.items, 0, nil
		}
		item, err := made(p)
		if err != nil {
			return l.items, 0, err
		}
		with := slices.Clone(l.items)
		with[at] = item
		return with, 1, nil
	}
	at := l.place(p.Operation)
	if at < 0 {
		return l.items, 0, nil
	}
	item, err := made(p)
	if err != nil {
		return l.items, 0, err
	}
	if at == len(l.items) && at > 0 && l.ends != nil && l.ends(l.items[at-1]) {
		at--
	}
	return slices.Insert(slices.Clone(l.items), at, item), 1, nil
}

// merged merges the value into the items that the patch names.
func (l list[E]) merged(p Patch) ([]E, int, error) {
	n := 0
	for _, e := range l.items {
		if l.is != nil && !l.is(e) {
			continue
		}
		can, err := l.merge(p, e)
		if err != nil {
			return l.items, n, err
		}
		if can {
			n++
		}
	}
	return l.items, n, nil
}

// named returns the place of the first item that the patch names; -1 for none.
func (l list[E]) named() int {
	if l.is == nil {
		return -1
	}
	return slices.IndexFunc(l.items, l.is)
}

// place returns where an operation puts an item; -1 for nowhere.
func (l list[E]) place(o model.PatchOperation) int {
	switch {
	case l.at != nil && o == model.PatchAdd:
		return *l.at
	case o == model.PatchAdd, o == model.PatchInsertAfter && l.is == nil:
		return len(l.items)
	case o == model.PatchInsertFirst, o == model.PatchInsertBefore && l.is == nil:
		return 0
	}
	at := l.named()
	switch {
	case at < 0 && l.at != nil:
		return *l.at
	case at >= 0 && o == model.PatchInsertAfter:
		at++
	}
	return at
}
