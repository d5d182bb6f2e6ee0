package source

import (
	"cmp"
	"slices"
)

// Tally is a set of problems with reference counts: several parts may report the same problem, and
// it stands until the last of them drops it. An update costs the size of the update, not of the
// set. It is used by one goroutine.
type Tally struct {
	known   map[Problem]*Tallied
	changed map[*Tallied]struct{} // since Flush
	of      *Tally                // of a fork: what it is a fork of
}

// Tallied is a problem in a Tally.
type Tallied struct {
	Problem
	refs    int
	flushed bool
}

// NewTally returns a Tally without problems.
func NewTally() *Tally {
	return &Tally{known: map[Problem]*Tallied{}, changed: map[*Tallied]struct{}{}}
}

// Fork returns a Tally that begins with what this one has, at the cost of what changes in it. What
// this one gave may be passed to it. This one must stay as it is meanwhile.
func (t *Tally) Fork() *Tally {
	f := NewTally()
	f.of = t
	for x := range t.changed {
		f.changed[f.own(x)] = struct{}{}
	}
	return f
}

// Copy returns a Tally that has for itself what this one has, which may change meanwhile. What this
// one gave may be passed to it. It costs as much as there is in it. This one is no fork.
func (t *Tally) Copy() *Tally {
	c := NewTally()
	c.of = NewTally() // own finds what this one gave by its value
	for p, x := range t.known {
		copied := *x
		c.known[p] = &copied
	}
	for x := range t.changed {
		c.changed[c.known[x.Problem]] = struct{}{}
	}
	return c
}

// Add adds a reference to a problem, which Release takes back.
func (t *Tally) Add(p Problem) *Tallied {
	x := t.find(p)
	if x == nil {
		x = &Tallied{Problem: p}
		t.known[p] = x
	}
	return t.count(x, 1)
}

// Retain adds a reference to a problem that is in the Tally.
func (t *Tally) Retain(x *Tallied) { t.count(t.own(x), 1) }

// Release takes back one Add or Retain.
func (t *Tally) Release(x *Tallied) { t.count(t.own(x), -1) }

func (t *Tally) count(x *Tallied, n int) *Tallied {
	x.refs += n
	t.changed[x] = struct{}{}
	return x
}

// own returns what a fork has in place of x.
func (t *Tally) own(x *Tallied) *Tallied {
	if t.of == nil {
		return x
	}
	return t.find(x.Problem)
}

// find returns a problem of the Tally, nil if it has none. A fork copies what it finds in the
// original.
func (t *Tally) find(p Problem) *Tallied {
	x := t.known[p]
	if x != nil || t.of == nil {
		return x
	}
	if was := t.of.find(p); was != nil {
		copied := *was
		t.known[p] = &copied
		return &copied
	}
	return nil
}

// Flush returns the problems that appeared and those that were mended since the last Flush, in the
// order of Problem.Compare.
func (t *Tally) Flush() (appeared, mended []Problem) {
	for x := range t.changed {
		switch {
		case x.refs == 0:
			if t.of == nil {
				delete(t.known, x.Problem) // a fork would find it in the original again
			}
			if x.flushed {
				x.flushed = false
				mended = append(mended, x.Problem)
			}
		case !x.flushed:
			x.flushed = true
			appeared = append(appeared, x.Problem)
		}
	}
	if len(t.changed) > 0 {
		t.changed = map[*Tallied]struct{}{} // a map keeps the size that it once had
	}
	slices.SortFunc(appeared, Problem.Compare)
	slices.SortFunc(mended, Problem.Compare)
	return appeared, mended
}

// HasUnflushed reports whether a problem of this severity has appeared since the last Flush.
func (t *Tally) HasUnflushed(s Severity) bool {
	for x := range t.changed {
		if x.refs > 0 && !x.flushed && x.Severity == s {
			return true
		}
	}
	return false
}

// Current returns the problems that stand, flushed or not, in the order of Problem.Compare.
func (t *Tally) Current() []Problem { return t.filter(func(x *Tallied) bool { return x.refs > 0 }) }

// Flushed returns the problems that stood at the last Flush, in the order of Problem.Compare.
func (t *Tally) Flushed() []Problem { return t.filter(func(x *Tallied) bool { return x.flushed }) }

func (t *Tally) filter(which func(*Tallied) bool) []Problem {
	all := []Problem{}
	for p, x := range t.known {
		if which(x) {
			all = append(all, p)
		}
	}
	if t.of != nil {
		for _, p := range t.of.filter(which) {
			if t.known[p] == nil {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, Problem.Compare)
	return all
}

// Compare orders problems for people: errors first, then by object, then by field and message.
func (p Problem) Compare(o Problem) int {
	return cmp.Or(
		cmp.Compare(o.Severity, p.Severity), p.Object.Compare(o.Object), cmp.Compare(p.Origin, o.Origin),
		cmp.Compare(p.Path, o.Path), cmp.Compare(p.Value, o.Value), cmp.Compare(p.Message, o.Message),
		cmp.Compare(p.Want, o.Want),
	)
}
