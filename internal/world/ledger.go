package world

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/lateen-mesh/lateen/internal/source"
)

// Ledger keeps every problem that stands now: what sources could not read, what ingest refused, what objects say about each
// other, and what views see contested. A problem goes as soon as its cause does. A change of some costs these, however many
// stand. Writers are the loop and the sources; readers get a snapshot.
type Ledger struct {
	mu       sync.Mutex
	tally    *source.Tally
	reports  map[string][]*source.Tallied // by origin
	subjects map[source.Key]*subject      // with what is wrong
	origins  map[source.Key]string        // of the objects that have one: those of an API server have none
	logger   *slog.Logger
	snapshot atomic.Pointer[[]source.Problem] // nil when it is to be made anew
	changed  func([]source.Problem, []source.Problem)
}

// subject is what is wrong with one object.
type subject struct {
	ingest    []*source.Tallied
	relations map[string][]*source.Tallied       // from checks between objects, by aspect
	conflicts map[source.Problem]*source.Tallied // from views
}

// NewLedger makes an empty ledger. changed, if not nil, is told which problems appeared and which were mended.
func NewLedger(logger *slog.Logger, changed func(appeared, mended []source.Problem)) *Ledger {
	return &Ledger{
		tally: source.NewTally(), reports: map[string][]*source.Tallied{}, subjects: map[source.Key]*subject{},
		origins: map[source.Key]string{}, logger: logger, changed: changed,
	}
}

// Problems are those that stand, in a fixed order.
func (l *Ledger) Problems() []source.Problem {
	if s := l.snapshot.Load(); s != nil {
		return *s
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.tally.Told()
	l.snapshot.Store(&all)
	return all
}

// Report takes a source's report at once: it has no generation to wait for.
func (l *Ledger) Report(r source.Report) {
	l.mu.Lock()
	setProblems(l.reports, r.Origin, l.swap(l.reports[r.Origin], r.Problems))
	l.mu.Unlock()
	l.publish()
}

// worse tells whether an error has appeared that was not told yet.
func (l *Ledger) worse() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tally.Untold(source.Error)
}

// Conflicts takes what views see contested that they did not before, and what no longer.
func (l *Ledger) Conflicts(appeared, mended []source.Problem) {
	l.mu.Lock()
	for _, p := range mended {
		l.edit(p.Object, func(s *subject) {
			if x := s.conflicts[p]; x != nil {
				l.tally.Drop(x)
				delete(s.conflicts, p)
			}
		})
	}
	for _, p := range appeared {
		l.edit(p.Object, func(s *subject) {
			if s.conflicts == nil {
				s.conflicts = map[source.Problem]*source.Tallied{}
			}
			s.conflicts[p] = l.tally.Add(l.placed(p, p.Object))
		})
	}
	l.mu.Unlock()
	l.publish()
}

// origin notes where an object stands, or that it is gone. What views see contested about one that is gone goes at once: they are
// told later.
func (l *Ledger) origin(c source.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Object != nil {
		l.place(source.Place{Key: c.Key, Origin: c.Origin})
		return
	}
	delete(l.origins, c.Key)
	if l.subjects[c.Key] != nil {
		l.edit(c.Key, l.withoutConflicts)
	}
}

// moved takes the new places of objects that did not change.
func (l *Ledger) moved(places []source.Place) {
	l.mu.Lock()
	for _, p := range places {
		if _, exists := l.origins[p.Key]; exists {
			l.place(p)
		}
	}
	l.mu.Unlock()
	l.publish()
}

// place notes where an object stands; what is wrong with it stands there too.
func (l *Ledger) place(p source.Place) {
	was := l.origins[p.Key]
	if p.Origin != "" {
		l.origins[p.Key] = p.Origin
	} else {
		delete(l.origins, p.Key)
	}
	s := l.subjects[p.Key]
	if s == nil || was == p.Origin {
		return
	}
	for i, x := range s.ingest {
		s.ingest[i] = l.move(x, p.Key)
	}
	for aspect, problems := range s.relations {
		for i, x := range problems {
			s.relations[aspect][i] = l.move(x, p.Key)
		}
	}
	for told, x := range s.conflicts {
		s.conflicts[told] = l.move(x, p.Key)
	}
}

func (l *Ledger) withoutConflicts(s *subject) {
	for _, x := range s.conflicts {
		l.tally.Drop(x)
	}
	s.conflicts = nil
}

func (l *Ledger) move(x *source.Tallied, k source.Key) *source.Tallied {
	p := x.Problem
	p.Origin = ""
	l.tally.Drop(x)
	return l.tally.Add(l.placed(p, k))
}

func (l *Ledger) object(k source.Key, problems []source.Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(problems) == 0 && l.subjects[k] == nil {
		return
	}
	l.edit(k, func(s *subject) { s.ingest = l.swap(s.ingest, l.placedAll(problems, k)) })
}

// relation is one aspect under which an object is checked against others.
type relation struct {
	object source.Key
	aspect string
}

// relation takes what such a check found, without origins: they are the objects'.
func (l *Ledger) relation(r relation, problems []source.Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(problems) == 0 && l.subjects[r.object] == nil {
		return
	}
	l.edit(r.object, func(s *subject) {
		if s.relations == nil {
			s.relations = map[string][]*source.Tallied{}
		}
		setProblems(s.relations, r.aspect, l.swap(s.relations[r.aspect], l.placedAll(problems, r.object)))
	})
}

// edit changes what is wrong with an object, and forgets it if that is nothing.
func (l *Ledger) edit(k source.Key, f func(*subject)) {
	s := l.subjects[k]
	if s == nil {
		s = &subject{}
		l.subjects[k] = s
	}
	f(s)
	if len(s.ingest)+len(s.relations)+len(s.conflicts) == 0 {
		delete(l.subjects, k)
	}
}

func (l *Ledger) swap(old []*source.Tallied, now []source.Problem) []*source.Tallied {
	for _, x := range old {
		l.tally.Drop(x)
	}
	var tallied []*source.Tallied
	for _, p := range now {
		tallied = append(tallied, l.tally.Add(p))
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

func (l *Ledger) placedAll(problems []source.Problem, k source.Key) []source.Problem {
	var placed []source.Problem
	for _, p := range problems {
		placed = append(placed, l.placed(p, k))
	}
	return placed
}

func (l *Ledger) placed(p source.Problem, k source.Key) source.Problem {
	p.Object = k
	if p.Origin == "" {
		p.Origin = l.origins[k]
	}
	return p
}

// publish tells what appeared and what was mended.
func (l *Ledger) publish() {
	l.mu.Lock()
	appeared, mended := l.tally.Tell()
	if len(appeared)+len(mended) > 0 {
		l.snapshot.Store(nil)
	}
	l.mu.Unlock()
	for _, p := range appeared {
		l.logger.Warn("problem", "severity", p.Severity.String(), "problem", p.String())
	}
	for _, p := range mended {
		l.logger.Info("problem mended", "problem", p.String())
	}
	if l.changed != nil && len(appeared)+len(mended) > 0 {
		l.changed(appeared, mended)
	}
}
