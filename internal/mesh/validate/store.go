package validate

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lateen-mesh/lateen/internal/source"
)

// ProblemStore keeps every current problem: unreadable files from sources, refused fields from the
// conversion, findings of the Checker, and conflicts from compile. A problem disappears with its
// cause. The cost of a change follows the problems that it touches. The loop and the sources write;
// readers get a list that does not change.
type ProblemStore struct {
	publishing sync.Mutex // held while Publish reports, and taken before mu

	mu       sync.Mutex
	tally    *source.Tally
	reports  map[string][]*source.Tallied // by origin
	subjects map[source.Key]*subject      // with what is wrong
	origins  map[source.Key]string        // of the objects that have one: those of an API server have none
	logger   *slog.Logger
	listed   atomic.Pointer[[]source.Problem] // nil when it is to be made anew
	changed  func([]source.Problem, []source.Problem)
}

// subject is what is wrong with one object.
type subject struct {
	converted []*source.Tallied                  // from its conversion
	relations map[string][]*source.Tallied       // from checks between objects, by aspect
	conflicts map[source.Problem]*source.Tallied // from compile
}

// NewProblemStore makes an empty store. changed, if not nil, is told which problems appeared and
// which were mended.
func NewProblemStore(logger *slog.Logger, changed func(appeared, mended []source.Problem)) *ProblemStore {
	return &ProblemStore{
		tally: source.NewTally(), reports: map[string][]*source.Tallied{}, subjects: map[source.Key]*subject{},
		origins: map[source.Key]string{}, logger: logger, changed: changed,
	}
}

// Fork returns a store that has the same problems and changes for itself, while proxies go on to
// report conflicts to this one. changed is told of what changes in it. It costs what is wrong.
func (st *ProblemStore) Fork(changed func(appeared, mended []source.Problem)) *ProblemStore {
	f := NewProblemStore(slog.New(slog.DiscardHandler), changed)
	st.mu.Lock()
	defer st.mu.Unlock()
	f.tally, f.origins = st.tally.Copy(), maps.Clone(st.origins)
	f.tally.Flush() // what is not published yet is no change of the fork
	for k, s := range st.subjects {
		f.subjects[k] = s.clone()
	}
	return f
}

func (s *subject) clone() *subject {
	c := &subject{
		converted: slices.Clone(s.converted), relations: maps.Clone(s.relations), conflicts: maps.Clone(s.conflicts),
	}
	for aspect, problems := range c.relations {
		c.relations[aspect] = slices.Clone(problems)
	}
	return c
}

// Problems returns all current problems, sorted.
func (st *ProblemStore) Problems() []source.Problem {
	if s := st.listed.Load(); s != nil {
		return *s
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	all := st.tally.Flushed()
	st.listed.Store(&all)
	return all
}

// Report takes a source's report at once: it has no generation to wait for.
func (st *ProblemStore) Report(r source.Report) {
	st.mu.Lock()
	setProblems(st.reports, r.Origin, st.swap(st.reports[r.Origin], r.Problems))
	st.mu.Unlock()
	st.Publish()
}

// HasNewErrors reports whether an error has appeared since the last Publish.
func (st *ProblemStore) HasNewErrors() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.tally.HasUnflushed(source.Error)
}

// Conflicts takes the conflicts that compile sees now and did not before, and those that are gone.
func (st *ProblemStore) Conflicts(appeared, mended []source.Problem) {
	st.mu.Lock()
	for _, p := range mended {
		st.edit(p.Object, func(s *subject) {
			if x := s.conflicts[p]; x != nil {
				st.tally.Release(x)
				delete(s.conflicts, p)
			}
		})
	}
	for _, p := range appeared {
		st.edit(p.Object, func(s *subject) {
			if s.conflicts == nil {
				s.conflicts = map[source.Problem]*source.Tallied{}
			}
			s.conflicts[p] = st.tally.Add(st.placed(p, p.Object))
		})
	}
	st.mu.Unlock()
	st.Publish()
}

// NoteOrigin notes the file and line of an object, or that it is gone. Conflicts of an object that
// is gone disappear at once, because compile reports them later.
func (st *ProblemStore) NoteOrigin(c source.Change) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if c.Object != nil {
		st.place(source.Place{Key: c.Key, Origin: c.Origin})
		return
	}
	delete(st.origins, c.Key)
	if st.subjects[c.Key] != nil {
		st.edit(c.Key, st.withoutConflicts)
	}
}

// Move takes the new places of objects that did not change.
func (st *ProblemStore) Move(places []source.Place) {
	st.mu.Lock()
	for _, p := range places {
		if _, exists := st.origins[p.Key]; exists {
			st.place(p)
		}
	}
	st.mu.Unlock()
	st.Publish()
}

// place notes where an object stands; what is wrong with it stands there too.
func (st *ProblemStore) place(p source.Place) {
	was := st.origins[p.Key]
	if p.Origin != "" {
		st.origins[p.Key] = p.Origin
	} else {
		delete(st.origins, p.Key)
	}
	s := st.subjects[p.Key]
	if s == nil || was == p.Origin {
		return
	}
	for i, x := range s.converted {
		s.converted[i] = st.move(x, p.Key)
	}
	for aspect, problems := range s.relations {
		for i, x := range problems {
			s.relations[aspect][i] = st.move(x, p.Key)
		}
	}
	for told, x := range s.conflicts {
		s.conflicts[told] = st.move(x, p.Key)
	}
}

func (st *ProblemStore) withoutConflicts(s *subject) {
	for _, x := range s.conflicts {
		st.tally.Release(x)
	}
	s.conflicts = nil
}

func (st *ProblemStore) move(x *source.Tallied, k source.Key) *source.Tallied {
	p := x.Problem
	p.Origin = ""
	st.tally.Release(x)
	return st.tally.Add(st.placed(p, k))
}

// SetConversion takes what the conversion of an object found wrong, in place of what it found
// before.
func (st *ProblemStore) SetConversion(k source.Key, problems []source.Problem) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(problems) == 0 && st.subjects[k] == nil {
		return
	}
	st.edit(k, func(s *subject) { s.converted = st.swap(s.converted, st.placedAll(problems, k)) })
}

// relation is one aspect under which an object is checked against others.
type relation struct {
	object source.Key
	aspect string
}

// setRelation takes what such a check found, without origins: they are the objects'.
func (st *ProblemStore) setRelation(r relation, problems []source.Problem) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(problems) == 0 && st.subjects[r.object] == nil {
		return
	}
	st.edit(r.object, func(s *subject) {
		if s.relations == nil {
			s.relations = map[string][]*source.Tallied{}
		}
		setProblems(s.relations, r.aspect, st.swap(s.relations[r.aspect], st.placedAll(problems, r.object)))
	})
}

// edit changes what is wrong with an object, and forgets it if that is nothing.
func (st *ProblemStore) edit(k source.Key, f func(*subject)) {
	s := st.subjects[k]
	if s == nil {
		s = &subject{}
		st.subjects[k] = s
	}
	f(s)
	if len(s.converted)+len(s.relations)+len(s.conflicts) == 0 {
		delete(st.subjects, k)
	}
}

func (st *ProblemStore) swap(old []*source.Tallied, now []source.Problem) []*source.Tallied {
	for _, x := range old {
		st.tally.Release(x)
	}
	var tallied []*source.Tallied
	for _, p := range now {
		tallied = append(tallied, st.tally.Add(p))
	}
	return tallied
}

func setProblems(m map[string][]*source.Tallied, k string, problems []*source.Tallied) {
	if len(problems) == 0 {
		delete(m, k)
		return
	}
	m[k] = problems
}

func (st *ProblemStore) placedAll(problems []source.Problem, k source.Key) []source.Problem {
	var placed []source.Problem
	for _, p := range problems {
		placed = append(placed, st.placed(p, k))
	}
	return placed
}

func (st *ProblemStore) placed(p source.Problem, k source.Key) source.Problem {
	p.Object = k
	if p.Origin == "" {
		p.Origin = st.origins[k]
	}
	return p
}

// Publish logs and reports the problems that appeared or were mended since the last call. Of two
// calls at once the later ones are reported last.
func (st *ProblemStore) Publish() {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	st.mu.Lock()
	appeared, mended := st.tally.Flush()
	if len(appeared)+len(mended) > 0 {
		st.listed.Store(nil)
	}
	st.mu.Unlock()
	for _, p := range appeared {
		st.logger.Warn("problem", "severity", p.Severity.String(), "problem", p.String())
	}
	for _, p := range mended {
		st.logger.Info("problem mended", "problem", p.String())
	}
	if st.changed != nil && len(appeared)+len(mended) > 0 {
		st.changed(appeared, mended)
	}
}
