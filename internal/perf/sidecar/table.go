package sidecar

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// buckets is the number of parts of a table with more entries than that.
const buckets = 64

// table is what a sidecar holds of a type: entries, at most one for each name. It is immutable, and
// equal tables of a loop are identical. Tables share parts, so two tables with one different entry
// have one different part.
type table struct {
	parts  []*part // one part, or as many as buckets
	digest uint64
	totals
	epoch uint32

	// names caches references if an entry refers to other names than its own.
	names []string
}

// part is a slice of entries ordered by hash and name.
type part struct {
	entries []*entry
	digest  uint64
	totals
	epoch uint32
}

// totals are sums over entries.
type totals struct {
	n, absent, marked int
	// refers counts entries that refer to others, foreign those that refer to another name than
	// their own, and vhds route tables that load their virtual hosts on demand.
	refers, foreign, vhds int
	// referBytes is the size of the referenced names as repeated strings of a message, and
	// versionBytes that of names and versions as a map.
	referBytes, versionBytes int
}

func (t *totals) add(o totals) {
	t.n += o.n
	t.absent += o.absent
	t.marked += o.marked
	t.refers += o.refers
	t.foreign += o.foreign
	t.vhds += o.vhds
	t.referBytes += o.referBytes
	t.versionBytes += o.versionBytes
}

func totalsOf(e *entry) totals {
	t := totals{n: 1}
	if e.absent {
		t.absent = 1
	} else {
		t.versionBytes = 1 + protowire.SizeBytes(versionSize(e))
	}
	if e.vhds {
		t.vhds = 1
	}
	if e.mark != 0 {
		t.marked = 1
	}
	if len(e.refers) > 0 {
		t.refers = 1
	}
	for _, name := range e.refers {
		t.referBytes += 1 + protowire.SizeBytes(len(name))
	}
	if e.foreign() {
		t.foreign = 1
	}
	return t
}

// versionSize returns the size of an entry in a map from names to versions.
func versionSize(e *entry) int {
	return 2 + protowire.SizeBytes(len(e.name)) + protowire.SizeBytes(len(e.version))
}

// size returns how many resources it holds.
func (t *table) size() int { return t.n - t.absent }

// get returns the entry of a name, or nil. hash must be the name's hash.
func (t *table) get(hash uint64, name string) *entry {
	if len(t.parts) == 0 {
		return nil
	}
	p := t.parts[0]
	if len(t.parts) > 1 {
		p = t.parts[bucket(hash)]
	}
	i, found := slices.BinarySearchFunc(p.entries, hash, func(e *entry, hash uint64) int {
		if c := cmp.Compare(e.hash, hash); c != 0 {
			return c
		}
		return cmp.Compare(e.name, name)
	})
	if !found {
		return nil
	}
	return p.entries[i]
}

func bucket(hash uint64) int { return int(hash >> (64 - 6)) }

// position is the state of an iteration over a table.
type position struct{ part, index int }

// next returns the entry at a position and advances it, or returns nil at the end.
func (t *table) next(at *position) *entry {
	for at.part < len(t.parts) {
		if p := t.parts[at.part]; at.index < len(p.entries) {
			at.index++
			return p.entries[at.index-1]
		}
		*at = position{part: at.part + 1}
	}
	return nil
}

// references returns the names that the entries refer to, sorted, without duplicates.
func (t *table) references() []string {
	if t.names != nil || t.refers == 0 {
		return t.names
	}
	var at position
	for e := t.next(&at); e != nil; e = t.next(&at) {
		t.names = append(t.names, e.refers...)
	}
	slices.Sort(t.names)
	t.names = slices.Clip(slices.Compact(t.names))
	return t.names
}

// refersTo reports whether an entry refers to a name.
func (t *table) refersTo(hash uint64, name string) bool {
	if e := t.get(hash, name); e != nil && slices.Contains(e.refers, name) {
		return true
	}
	if t.foreign == 0 {
		return false
	}
	_, is := slices.BinarySearch(t.references(), name)
	return is
}

// pending counts the names that the table refers to and that child has no entry for.
func (t *table) pending(child *table) (n int) {
	if t.foreign > 0 {
		for _, name := range t.references() {
			if child.get(nameHash(name), name) == nil {
				n++
			}
		}
		return n
	}
	var at position
	for e := t.next(&at); e != nil; e = t.next(&at) {
		if len(e.refers) > 0 && child.get(e.hash, e.name) == nil {
			n++
		}
	}
	return n
}

// refDiff is the difference between the names that two tables refer to.
type refDiff struct{ added, removed []string }

// diffRefs compares the referenced names of two tables. It skips shared parts.
func (t *table) diffRefs(to *table) (s refDiff) {
	was, is := t.changedRefs(to)
	slices.Sort(was)
	slices.Sort(is)
	was, is = slices.Compact(was), slices.Compact(is)
	alone := t.foreign+to.foreign == 0 // then no other entry refers to a name that a changed one refers to
	for i, j := 0, 0; i < len(was) || j < len(is); {
		switch {
		case j == len(is) || i < len(was) && was[i] < is[j]:
			if alone || !to.refersTo(nameHash(was[i]), was[i]) {
				s.removed = append(s.removed, was[i])
			}
			i++
		case i == len(was) || is[j] < was[i]:
			if alone || !t.refersTo(nameHash(is[j]), is[j]) {
				s.added = append(s.added, is[j])
			}
			j++
		default:
			i, j = i+1, j+1
		}
	}
	return s
}

// changedRefs returns the names that entries of one table refer to which the other one does not
// have.
func (t *table) changedRefs(to *table) (was, is []string) {
	if len(t.parts) != len(to.parts) {
		return changedIn(slices.Collect(t.all), slices.Collect(to.all))
	}
	for i, p := range t.parts {
		if p != to.parts[i] {
			gone, come := changedIn(p.entries, to.parts[i].entries)
			was, is = append(was, gone...), append(is, come...)
		}
	}
	return was, is
}

// all visits the entries in their order.
func (t *table) all(visit func(*entry) bool) {
	for _, p := range t.parts {
		for _, e := range p.entries {
			if !visit(e) {
				return
			}
		}
	}
}

// changedIn returns what the entries refer to that are in one list alone. Both are ordered, and
// equal entries are identical.
func changedIn(from, to []*entry) (was, is []string) {
	for len(from) > 0 || len(to) > 0 {
		switch {
		case len(from) > 0 && len(to) > 0 && from[0] == to[0]:
			from, to = from[1:], to[1:]
		case len(to) == 0 || len(from) > 0 && compareEntries(from[0], to[0]) < 0:
			was, from = append(was, from[0].refers...), from[1:]
		case len(from) == 0 || compareEntries(from[0], to[0]) > 0:
			is, to = append(is, to[0].refers...), to[1:]
		default:
			was, from = append(was, from[0].refers...), from[1:]
			is, to = append(is, to[0].refers...), to[1:]
		}
	}
	return was, is
}

// compareEntries orders entries by hash and name.
func compareEntries(a, b *entry) int {
	if c := cmp.Compare(a.hash, b.hash); c != 0 {
		return c
	}
	return cmp.Compare(a.name, b.name)
}
