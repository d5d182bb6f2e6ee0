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

// Add adds a reference to a problem, which Release takes back.
func (t *Tally) Add(p Problem) *Tallied {
	x := t.known[p]
	if x == nil {
		x = &Tallied{Problem: p}
		t.known[p] = x
	}
	x.refs++
	t.changed[x] = struct{}{}
	return x
}

// Retain adds a reference to a problem that is in the Tally.
func (t *Tally) Retain(x *Tallied) {
	x.refs++
	t.changed[x] = struct{}{}
}

// Release takes back one Add or Retain.
func (t *Tally) Release(x *Tallied) {
	x.refs--
	t.changed[x] = struct{}{}
}

// Flush returns the problems that appeared and those that were mended since the last Flush, in the
// order of Problem.Compare.
func (t *Tally) Flush() (appeared, mended []Problem) {
	for x := range t.changed {
		switch {
		case x.refs == 0:
			delete(t.known, x.Problem)
			if x.flushed {
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
	slices.SortFunc(all, Problem.Compare)
	return all
}

// Compare orders problems for people: errors first, then by object.
func (p Problem) Compare(o Problem) int {
	return cmp.Or(cmp.Compare(o.Severity, p.Severity), p.Object.Compare(o.Object), cmp.Compare(p.String(), o.String()))
}
