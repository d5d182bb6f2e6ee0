package dir

import (
	"bytes"
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
)

// ledger knows for each object which documents define it, which of them is in force, and what was delivered.
type ledger struct {
	// claims are the documents of each object; the first is in force.
	claims map[source.Key][]claim
	// delivered are the objects as the sink has them.
	delivered map[source.Key]claim
	// touched are the objects whose claims changed since the last flush, and when that was noticed.
	touched map[source.Key]time.Time
	logger  *slog.Logger
}

// claim is a document of a file.
type claim struct {
	file string
	manifest.Document
}

// compare is the order of precedence: by path, then by position. It is the order of delivery, too.
func (c claim) compare(o claim) int {
	return cmp.Or(cmp.Compare(c.file, o.file), cmp.Compare(c.Line, o.Line))
}

func newLedger(logger *slog.Logger) *ledger {
	return &ledger{
		claims:    map[source.Key][]claim{},
		delivered: map[source.Key]claim{},
		touched:   map[source.Key]time.Time{},
		logger:    logger,
	}
}

// replace puts the documents of a file in the place of those it had. It gives the other files that define, or
// defined together with this one, an object in question: their reports may have changed.
func (l *ledger) replace(file string, before, after []manifest.Document, noticed time.Time) (contested map[string]bool) {
	contested = map[string]bool{}
	for _, d := range before {
		l.contest(d.Key, contested)
		l.claims[d.Key] = slices.DeleteFunc(l.claims[d.Key], func(c claim) bool { return c.file == file })
		l.touch(d.Key, noticed)
	}
	for _, d := range after {
		claims := append(l.claims[d.Key], claim{file, d})
		slices.SortStableFunc(claims, claim.compare)
		l.claims[d.Key] = claims
		l.contest(d.Key, contested)
		l.touch(d.Key, noticed)
	}
	return contested
}

func (l *ledger) contest(key source.Key, files map[string]bool) {
	for _, c := range l.claims[key] {
		files[c.file] = true
	}
}

func (l *ledger) touch(key source.Key, noticed time.Time) {
	if earlier, ok := l.touched[key]; !ok || noticed.Before(earlier) {
		l.touched[key] = noticed
	}
}

// lost gives the problems of a file's documents whose object is in force as another document has it.
func (l *ledger) lost(file string, documents []manifest.Document) []source.Problem {
	var problems []source.Problem
	for _, d := range documents {
		claims := l.claims[d.Key]
		if len(claims) > 0 && (claims[0].file != file || claims[0].Line != d.Line) {
			problems = append(problems, manifest.Duplicate(d, claims[0].Document))
		}
	}
	return problems
}

// flush gives the changes since the last one: what is new or different in order of precedence, then the deletions
// by key. Of an object that is as it was delivered only its place is told, if it stands on another line now.
func (l *ledger) flush(now time.Time) ([]source.Change, []source.Place) {
	var upserts []claim
	var deletions []source.Change
	var moved []source.Place
	for key, noticed := range l.touched {
		winner, exists := l.winner(key)
		last, delivered := l.delivered[key]
		switch {
		case !exists && delivered:
			delete(l.delivered, key)
			deletions = append(deletions, source.Change{Key: key, Origin: last.Origin, ObservedAt: noticed})
		case exists && (!delivered || winner.file != last.file || !bytes.Equal(winner.JSON, last.JSON)):
			upserts = append(upserts, winner)
			l.delivered[key] = winner
		case exists && winner.Origin != last.Origin:
			moved = append(moved, source.Place{Key: key, Origin: winner.Origin})
			l.delivered[key] = winner
		}
	}
	slices.SortFunc(moved, func(a, b source.Place) int { return a.Key.Compare(b.Key) })
	slices.SortFunc(upserts, claim.compare)
	slices.SortFunc(deletions, func(a, b source.Change) int { return a.Key.Compare(b.Key) })
	changes := make([]source.Change, 0, len(upserts)+len(deletions))
	for _, c := range upserts {
		observed := l.touched[c.Key]
		if observed.IsZero() { // a recorded reading: it counts as seen now
			observed = now
		}
		changes = append(changes, c.Change(observed))
	}
	clear(l.touched)
	return append(changes, deletions...), moved
}

// winner is the claim that is in force. A recorded reading is decoded here, at its first use; one that an earlier
// version of Lateen recorded and that cannot be decoded any more is dropped.
func (l *ledger) winner(key source.Key) (claim, bool) {
	for len(l.claims[key]) > 0 {
		first := &l.claims[key][0]
		if first.Object != nil {
			return *first, true
		}
		err := first.Decode()
		if err == nil {
			return *first, true
		}
		l.logger.Error("a recorded reading cannot be used", "object", key.String(), "origin", first.Origin, "error", err)
		l.claims[key] = l.claims[key][1:]
	}
	delete(l.claims, key)
	return claim{}, false
}

// reports holds what is wrong, by origin, and what the sink was told of it.
type reports struct {
	current map[string][]source.Problem // only what was set since the last flush
	told    map[string][]source.Problem
}

func newReports() reports {
	return reports{current: map[string][]source.Problem{}, told: map[string][]source.Problem{}}
}

func (r reports) set(origin string, problems []source.Problem) { r.current[origin] = problems }

// flush gives the reports that differ from what was told.
func (r reports) flush() []source.Report {
	var changed []source.Report
	for _, origin := range slices.Sorted(maps.Keys(r.current)) {
		problems := r.current[origin]
		if slices.Equal(problems, r.told[origin]) {
			continue
		}
		changed = append(changed, source.Report{Origin: origin, Problems: problems})
		if len(problems) == 0 {
			delete(r.told, origin)
		} else {
			r.told[origin] = problems
		}
	}
	clear(r.current)
	return changed
}
