package source

import (
	"cmp"
	"slices"
)

// Tally keeps problems of which several may have a say at once: a problem stands as long as one of them says so. What
// comes and goes costs what comes and goes, however much stands. It is used by one goroutine.
type Tally struct {
	known   map[Problem]*Tallied
	touched map[*Tallied]struct{} // since Tell
}

// Tallied is a problem in a Tally.
type Tallied struct {
	Problem
	says int
	told bool
}

// NewTally is a Tally without problems.
func NewTally() *Tally {
	return &Tally{known: map[Problem]*Tallied{}, touched: map[*Tallied]struct{}{}}
}

// Add counts one that says so, until Drop.
func (t *Tally) Add(p Problem) *Tallied {
	x := t.known[p]
	if x == nil {
		x = &Tallied{Problem: p}
		t.known[p] = x
	}
	x.says++
	t.touched[x] = struct{}{}
	return x
}

// Again counts one more that says what others do.
func (t *Tally) Again(x *Tallied) {
	x.says++
	t.touched[x] = struct{}{}
}

// Drop takes an Add back.
func (t *Tally) Drop(x *Tallied) {
	x.says--
	t.touched[x] = struct{}{}
}

// Tell returns what appeared and what was mended since it was called last, in the order of Problem.Compare.
func (t *Tally) Tell() (appeared, mended []Problem) {
	for x := range t.touched {
		switch {
		case x.says == 0:
			delete(t.known, x.Problem)
			if x.told {
				mended = append(mended, x.Problem)
			}
		case !x.told:
			x.told = true
			appeared = append(appeared, x.Problem)
		}
	}
	if len(t.touched) > 0 {
		t.touched = map[*Tallied]struct{}{} // a map keeps the size that it once had
	}
	slices.SortFunc(appeared, Problem.Compare)
	slices.SortFunc(mended, Problem.Compare)
	return appeared, mended
}

// Untold tells whether a problem of this severity has appeared since Tell was called last.
func (t *Tally) Untold(s Severity) bool {
	for x := range t.touched {
		if x.says > 0 && !x.told && x.Severity == s {
			return true
		}
	}
	return false
}

// Standing are those that stand, told or not, in the order of Problem.Compare.
func (t *Tally) Standing() []Problem { return t.all(func(x *Tallied) bool { return x.says > 0 }) }

// Told are those that stood at the last Tell, in the order of Problem.Compare.
func (t *Tally) Told() []Problem { return t.all(func(x *Tallied) bool { return x.told }) }

func (t *Tally) all(which func(*Tallied) bool) []Problem {
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
