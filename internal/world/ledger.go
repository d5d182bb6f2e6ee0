package world

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lateen-mesh/lateen/internal/source"
)

// Ledger keeps every problem that stands now: what sources could not read, what ingest refused, and what objects say
// about each other. A problem goes as soon as its cause does. Writers are the loop and the sources; readers get a snapshot.
type Ledger struct {
	mu        sync.Mutex
	reports   map[string][]source.Problem     // by origin
	objects   map[source.Key][]source.Problem // from ingest
	relations map[relation][]source.Problem   // from checks between objects
	conflicts []source.Problem                // from views
	origins   map[source.Key]string           // of all objects that exist; empty for those of an API server
	known     map[source.Problem]bool
	logger    *slog.Logger
	snapshot  atomic.Pointer[[]source.Problem]
	changed   func([]source.Problem, []source.Problem)
}

// NewLedger makes an empty ledger. changed, if not nil, is told which problems appeared and which were mended.
func NewLedger(logger *slog.Logger, changed func(appeared, mended []source.Problem)) *Ledger {
	l := &Ledger{
		reports: map[string][]source.Problem{}, objects: map[source.Key][]source.Problem{}, relations: map[relation][]source.Problem{},
		origins: map[source.Key]string{}, known: map[source.Problem]bool{}, logger: logger, changed: changed,
	}
	l.snapshot.Store(&[]source.Problem{})
	return l
}

// Problems are those that stand, in a fixed order.
func (l *Ledger) Problems() []source.Problem { return *l.snapshot.Load() }

// Report takes a source's report at once: it has no generation to wait for.
func (l *Ledger) Report(r source.Report) {
	l.mu.Lock()
	if len(r.Problems) == 0 {
		delete(l.reports, r.Origin)
	} else {
		l.reports[r.Origin] = r.Problems
	}
	l.mu.Unlock()
	l.publish()
}

// Conflicts replaces what views say of contested ports.
func (l *Ledger) Conflicts(problems []source.Problem) {
	l.mu.Lock()
	l.conflicts = problems
	l.mu.Unlock()
	l.publish()
}

func (l *Ledger) origin(c source.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Object == nil {
		delete(l.origins, c.Key)
		return
	}
	l.origins[c.Key] = c.Origin
}

func (l *Ledger) object(k source.Key, problems []source.Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	setProblems(l.objects, k, problems)
}

// relation is one aspect under which an object is checked against others.
type relation struct {
	object source.Key
	aspect string
}

func (l *Ledger) relation(r relation, problems []source.Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	setProblems(l.relations, r, problems)
}

func setProblems[K comparable](m map[K][]source.Problem, k K, problems []source.Problem) {
	if len(problems) == 0 {
		delete(m, k)
		return
	}
	m[k] = problems
}

// publish makes the snapshot and tells what appeared and what was mended.
func (l *Ledger) publish() {
	l.mu.Lock()
	var all []source.Problem
	for _, p := range l.reports {
		all = append(all, p...)
	}
	for k, problems := range l.objects {
		for _, p := range problems {
			all = append(all, l.placed(p, k))
		}
	}
	for r, problems := range l.relations {
		for _, p := range problems {
			all = append(all, l.placed(p, r.object))
		}
	}
	for _, p := range l.conflicts {
		if _, exists := l.origins[p.Object]; exists { // views are told later than the ledger what has gone
			all = append(all, l.placed(p, p.Object))
		}
	}
	slices.SortFunc(all, compareProblems)
	all = slices.Compact(all)
	l.snapshot.Store(&all)
	appeared, mended := l.compare(all)
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

func (l *Ledger) placed(p source.Problem, k source.Key) source.Problem {
	p.Object = k
	if p.Origin == "" {
		p.Origin = l.origins[k]
	}
	return p
}

func (l *Ledger) compare(all []source.Problem) (appeared, mended []source.Problem) {
	now := make(map[source.Problem]bool, len(all))
	for _, p := range all {
		now[p] = true
		if !l.known[p] {
			appeared = append(appeared, p)
		}
	}
	for p := range l.known {
		if !now[p] {
			mended = append(mended, p)
		}
	}
	slices.SortFunc(mended, compareProblems)
	l.known = now
	return appeared, mended
}

func compareProblems(a, b source.Problem) int {
	return cmp.Or(cmp.Compare(b.Severity, a.Severity), a.Object.Compare(b.Object), cmp.Compare(a.String(), b.String()))
}
