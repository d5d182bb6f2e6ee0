package sidecar

// This file counts the names that a sidecar has asked for and that are not answered. The count
// follows each change at the cost of that change. A whole table is walked only for a change that is
// itself as large as an eighth of it, and then once for all sidecars with the same tables.

// wholeShare is the share of a table, as a divisor, from which on a change counts as large.
const wholeShare = 8

// missingOf returns the count of names that the resources of a type refer to without an answer, or
// nil for a type whose names are not waited for.
func (s *Sidecar) missingOf(parent Type) *int32 {
	switch parent {
	case Cluster:
		return &s.missing[0]
	case Listener:
		return &s.missing[1]
	}
	return nil
}

// recount counts by the whole tables.
func (s *Sidecar) recount(parent Type) {
	child, _ := parent.child()
	*s.missingOf(parent) = int32(s.loop.pending(s.tables[parent], s.tables[child]))
}

// countReferred follows a change of the names that the resources of a type refer to. Entries of
// removed names are no longer in the child's table; before is that table with them.
func (s *Sidecar) countReferred(parent Type, before *table, step refDiff) {
	missing := s.missingOf(parent)
	if missing == nil {
		return
	}
	if (len(step.added)+len(step.removed))*wholeShare > s.tables[parent].n {
		s.recount(parent)
		return
	}
	for _, name := range step.added {
		if before.get(nameHash(name), name) == nil {
			*missing++
		}
	}
	for _, name := range step.removed {
		if before.get(nameHash(name), name) == nil {
			*missing--
		}
	}
}

// countAnswered follows a response with resources of a child type. Their entries never go by a
// response: a removed resource leaves one that says so.
func (s *Sidecar) countAnswered(t Type, was *table, edits []edit) {
	parent, named := t.parent()
	if !named || s.missingOf(parent) == nil {
		return
	}
	missing, referring := s.missingOf(parent), s.tables[parent]
	answered := s.tables[t].n - was.n
	if answered == 0 {
		return
	}
	if answered*wholeShare > was.n {
		s.recount(parent)
		return
	}
	for _, e := range edits {
		if was.get(e.hash, e.name) != nil {
			continue
		}
		answered--
		if referring.refersTo(e.hash, e.name) {
			*missing--
		}
	}
	if answered < 0 { // a name stands in the response twice
		s.recount(parent)
	}
}

// updateAnswered records whether all names that a type refers to have been answered.
func (s *Sidecar) updateAnswered(parent, child Type) {
	if s.settled.has(child) || s.unanswered.has(parent) || !s.requested.has(parent) {
		return
	}
	if *s.missingOf(parent) == 0 {
		s.settled.add(child)
	}
}
