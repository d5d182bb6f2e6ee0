package sidecar

import (
	"cmp"
	"slices"
)

// sweepAt is how many new objects a loop creates before it collects unused ones, if this exceeds
// twice the number in use.
const sweepAt = 4096

// tables interns the tables of a loop's sidecars, and caches the results of changes: most sidecars
// receive the same ones.
type tables struct {
	*interner
	empty  *table
	tables map[uint64]*table
	parts  map[uint64]*part
	// Caches since the last sweep: results of edits, differences of references, counts of
	// references without a resource.
	transitions   map[transition]*table
	refDiffs      map[[2]*table]refDiff
	pendingCounts map[[2]*table]int
	// walks counts calls of pending that walked a whole table.
	walks          int
	epoch          uint32
	liveAfterSweep int // after the last sweep
}

// transition is a change of a table, identified by the digest of the change.
type transition struct {
	from   *table
	change uint64
}

func newTables(in *interner) *tables {
	t := &tables{interner: in, empty: &table{}, tables: map[uint64]*table{}, parts: map[uint64]*part{}}
	t.forget()
	return t
}

func (ts *tables) forget() {
	ts.transitions, ts.refDiffs = map[transition]*table{}, map[[2]*table]refDiff{}
	ts.pendingCounts = map[[2]*table]int{}
}

// edit sets the entry of a name, or removes it.
type edit struct {
	hash  uint64
	name  string
	entry *entry // nil removes it
}

// apply returns a table with edits applied, of which the last of a name counts. The digest
// identifies the edits.
func (ts *tables) apply(from *table, edits []edit, digest uint64) *table {
	if len(edits) == 0 {
		return from
	}
	if to, ok := ts.transitions[transition{from, digest}]; ok {
		return to
	}
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b edit) int {
		if c := cmp.Compare(a.hash, b.hash); c != 0 {
			return c
		}
		return cmp.Compare(a.name, b.name)
	})
	to := ts.edited(from, edits)
	ts.transitions[transition{from, digest}] = to
	return to
}

func (ts *tables) edited(from *table, edits []edit) *table {
	if len(from.parts) < buckets {
		var had []*entry
		if len(from.parts) == 1 {
			had = from.parts[0].entries
		}
		return ts.of(merged(had, edits))
	}
	parts, n := slices.Clone(from.parts), from.n
	for len(edits) > 0 {
		b := bucket(edits[0].hash)
		count := 1
		for count < len(edits) && bucket(edits[count].hash) == b {
			count++
		}
		n -= parts[b].n
		parts[b] = ts.part(merged(parts[b].entries, edits[:count]))
		n += parts[b].n
		edits = edits[count:]
	}
	if n > buckets {
		return ts.table(parts)
	}
	var all []*entry
	for _, p := range parts {
		all = append(all, p.entries...)
	}
	return ts.of(all)
}

// merged applies edits to entries. Both are ordered; the last edit of a name counts.
func merged(entries []*entry, edits []edit) []*entry {
	all := make([]*entry, 0, len(entries)+len(edits))
	for i, e := range edits {
		for len(entries) > 0 && (entries[0].hash < e.hash || entries[0].hash == e.hash && entries[0].name < e.name) {
			all, entries = append(all, entries[0]), entries[1:]
		}
		if len(entries) > 0 && entries[0].hash == e.hash && entries[0].name == e.name {
			entries = entries[1:]
		}
		if e.entry != nil && (i+1 == len(edits) || edits[i+1].hash != e.hash || edits[i+1].name != e.name) {
			all = append(all, e.entry)
		}
	}
	return append(all, entries...)
}

// of returns the table of ordered entries.
func (ts *tables) of(entries []*entry) *table {
	if len(entries) == 0 {
		return ts.empty
	}
	if len(entries) <= buckets {
		return ts.table([]*part{ts.part(entries)})
	}
	parts := make([]*part, buckets)
	for b := range parts {
		count := 0
		for count < len(entries) && bucket(entries[count].hash) == b {
			count++
		}
		parts[b] = ts.part(entries[:count:count])
		entries = entries[count:]
	}
	return ts.table(parts)
}

func (ts *tables) part(entries []*entry) *part {
	digest := uint64(len(entries))
	for _, e := range entries {
		digest = mix(digest, e.key)
	}
	if p := ts.parts[digest]; p != nil && slices.Equal(p.entries, entries) {
		return p
	}
	p := &part{entries: slices.Clip(entries), digest: digest}
	for _, e := range entries {
		p.add(totalsOf(e))
	}
	ts.parts[digest] = p
	return p
}

func (ts *tables) table(parts []*part) *table {
	digest := uint64(len(parts))
	for _, p := range parts {
		digest = mix(digest, p.digest)
	}
	if t := ts.tables[digest]; t != nil && slices.Equal(t.parts, parts) {
		return t
	}
	t := &table{parts: parts, digest: digest}
	for _, p := range parts {
		t.add(p.totals)
	}
	ts.tables[digest] = t
	return t
}

// refDiff is a cached from.diffRefs(to).
func (ts *tables) refDiff(from, to *table) refDiff {
	if from == to {
		return refDiff{}
	}
	s, ok := ts.refDiffs[[2]*table{from, to}]
	if !ok {
		s = from.diffRefs(to)
		ts.refDiffs[[2]*table{from, to}] = s
	}
	return s
}

// pending is a cached parent.pending(child).
func (ts *tables) pending(parent, child *table) int {
	n, ok := ts.pendingCounts[[2]*table{parent, child}]
	if !ok {
		ts.walks++
		n = parent.pending(child)
		ts.pendingCounts[[2]*table{parent, child}] = n
	}
	return n
}

// due reports whether a sweep is worthwhile.
func (ts *tables) due() bool {
	return len(
		ts.entries,
	)+len(
		ts.tables,
	)+len(
		ts.parts,
	)+len(
		ts.transitions,
	)+len(
		ts.refDiffs,
	)+len(
		ts.pendingCounts,
	) > sweepAt+2*ts.liveAfterSweep
}

// sweep forgets everything that is not reachable from what inUse visits.
func (ts *tables) sweep(inUse func(func(*table), func(*entry))) {
	ts.epoch++
	useEntry := func(e *entry) { e.epoch = ts.epoch }
	inUse(func(t *table) {
		if t.epoch == ts.epoch {
			return
		}
		t.epoch = ts.epoch
		for _, p := range t.parts {
			if p.epoch == ts.epoch {
				continue
			}
			p.epoch = ts.epoch
			for _, e := range p.entries {
				useEntry(e)
			}
		}
	}, useEntry)
	for k, e := range ts.entries {
		if e.epoch != ts.epoch {
			delete(ts.entries, k)
		}
	}
	for k, t := range ts.tables {
		if t.epoch != ts.epoch {
			delete(ts.tables, k)
		}
	}
	for k, p := range ts.parts {
		if p.epoch != ts.epoch {
			delete(ts.parts, k)
		}
	}
	ts.forget()
	ts.liveAfterSweep = len(ts.entries) + len(ts.tables) + len(ts.parts)
}
