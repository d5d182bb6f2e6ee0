package sidecar

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// buckets is into how many parts a table of more than that many entries is cut.
const buckets = 64

// table is what sidecars hold of a type: entries, at most one of a name. It is immutable, and equal tables of a loop are one. Its
// parts are shared with other tables, so that two that differ in one entry differ in one part.
type table struct {
	parts  []*part // one, or as many as there are buckets
	digest uint64
	totals
	epoch uint32

	// names are those that the entries refer to, sorted, each once, where entries refer to others than themselves; made when
	// they are first asked for.
	names []string
}

// part are entries ordered by hash and name.
type part struct {
	entries []*entry
	digest  uint64
	totals
	epoch uint32
}

// totals are sums over entries.
type totals struct {
	n, absent, marked int
	// refers is how many refer to others, foreign how many of them to another name than their own, vhds how many are route
	// tables with virtual hosts of their own.
	refers, foreign, vhds int
	// referBytes is the size of the names that they refer to as repeated strings of a message, versionBytes that of names and
	// versions as a map.
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

// versionSize is that of an entry of a map from names to versions.
func versionSize(e *entry) int {
	return 2 + protowire.SizeBytes(len(e.name)) + protowire.SizeBytes(len(e.version))
}

// size is how many resources it holds.
func (t *table) size() int { return t.n - t.absent }

// get finds a name's entry, nil if there is none. The hash is the name's.
func (t *table) get(hash uint64, name string) *entry {
	if len(t.parts) == 0 {
		return nil
	}
	p := t.parts[0]
	if len(t.parts) > 1 {
		p = t.parts[bucket(hash)]
	}
	i, found := slices.BinarySearchFunc(p.entries, entry{hash: hash, name: name}, func(e *entry, o entry) int {
		return cmp.Or(cmp.Compare(e.hash, o.hash), cmp.Compare(e.name, o.name))
	})
	if !found {
		return nil
	}
	return p.entries[i]
}

func bucket(hash uint64) int { return int(hash >> (64 - 6)) }

// place is where in a table an iteration is.
type place struct{ part, index int }

// next is the entry at a place, which it moves on; nil at the end.
func (t *table) next(at *place) *entry {
	for at.part < len(t.parts) {
		if p := t.parts[at.part]; at.index < len(p.entries) {
			at.index++
			return p.entries[at.index-1]
		}
		*at = place{part: at.part + 1}
	}
	return nil
}

// references are the names that the entries refer to, sorted, each once.
func (t *table) references() []string {
	if t.names != nil || t.refers == 0 {
		return t.names
	}
	var at place
	for e := t.next(&at); e != nil; e = t.next(&at) {
		t.names = append(t.names, e.refers...)
	}
	slices.Sort(t.names)
	t.names = slices.Clip(slices.Compact(t.names))
	return t.names
}

// refersTo tells whether an entry refers to a name.
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

// pending counts the names that the table refers to and of which child knows nothing.
func (t *table) pending(child *table) (n int) {
	if t.foreign > 0 {
		for _, name := range t.references() {
			if child.get(nameHash(name), name) == nil {
				n++
			}
		}
		return n
	}
	var at place
	for e := t.next(&at); e != nil; e = t.next(&at) {
		if len(e.refers) > 0 && child.get(e.hash, e.name) == nil {
			n++
		}
	}
	return n
}

// step is how the names that a table refers to differ from another's.
type step struct{ more, less []string }

// stepTo compares. Parts that the two share are not looked at.
func (t *table) stepTo(to *table) (s step) {
	was, is := t.differing(to)
	slices.Sort(was)
	slices.Sort(is)
	was, is = slices.Compact(was), slices.Compact(is)
	alone := t.foreign+to.foreign == 0 // what an entry refers to, no other one in a part that is shared does
	for i, j := 0, 0; i < len(was) || j < len(is); {
		switch {
		case j == len(is) || i < len(was) && was[i] < is[j]:
			if alone || !to.refersTo(nameHash(was[i]), was[i]) {
				s.less = append(s.less, was[i])
			}
			i++
		case i == len(was) || is[j] < was[i]:
			if alone || !t.refersTo(nameHash(is[j]), is[j]) {
				s.more = append(s.more, is[j])
			}
			j++
		default:
			i, j = i+1, j+1
		}
	}
	return s
}

// differing are the names that the parts refer to in which two tables differ.
func (t *table) differing(to *table) (was, is []string) {
	collect := func(names []string, p *part) []string {
		for _, e := range p.entries {
			names = append(names, e.refers...)
		}
		return names
	}
	same := len(t.parts) == len(to.parts)
	for i, p := range t.parts {
		if !same || p != to.parts[i] {
			was = collect(was, p)
		}
	}
	for i, p := range to.parts {
		if !same || p != t.parts[i] {
			is = collect(is, p)
		}
	}
	return was, is
}
