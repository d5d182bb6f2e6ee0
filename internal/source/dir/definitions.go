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

// definitions knows for each object which documents define it, which of them is in force, and what
// was delivered.
type definitions struct {
	// byObject has the documents of each object; the first is in force.
	byObject map[source.Key][]definition
	// delivered has the objects as the sink knows them.
	delivered map[source.Key]definition
	// changed has the objects whose documents changed since the last flush, and when that was
	// noticed.
	changed map[source.Key]time.Time
	logger  *slog.Logger
}

// definition is one document of a file.
type definition struct {
	file string
	manifest.Document
}

// compare is the order of precedence: by path, then by position. Changes are delivered in the same
// order.
func (c definition) compare(o definition) int {
	return cmp.Or(cmp.Compare(c.file, o.file), cmp.Compare(c.Line, o.Line))
}

func newDefinitions(logger *slog.Logger) *definitions {
	return &definitions{
		byObject:  map[source.Key][]definition{},
		delivered: map[source.Key]definition{},
		changed:   map[source.Key]time.Time{},
		logger:    logger,
	}
}

// replace replaces the documents of a file. It returns the files that define, or defined together
// with this one, an object in question, because their reports may have changed.
func (l *definitions) replace(
	file string, before, after []manifest.Document, noticed time.Time,
) (contested map[string]bool) {
	contested = map[string]bool{}
	for _, d := range before {
		l.addFiles(d.Key, contested)
		l.byObject[d.Key] = slices.DeleteFunc(l.byObject[d.Key], func(c definition) bool { return c.file == file })
		l.markChanged(d.Key, noticed)
	}
	for _, d := range after {
		candidates := append(l.byObject[d.Key], definition{file, d})
		slices.SortStableFunc(candidates, definition.compare)
		l.byObject[d.Key] = candidates
		l.addFiles(d.Key, contested)
		l.markChanged(d.Key, noticed)
	}
	return contested
}

func (l *definitions) addFiles(key source.Key, files map[string]bool) {
	for _, c := range l.byObject[key] {
		files[c.file] = true
	}
}

func (l *definitions) markChanged(key source.Key, noticed time.Time) {
	if earlier, ok := l.changed[key]; !ok || noticed.Before(earlier) {
		l.changed[key] = noticed
	}
}

// shadowed returns a problem for each document of a file whose object another document defines with
// precedence.
func (l *definitions) shadowed(file string, documents []manifest.Document) []source.Problem {
	var problems []source.Problem
	for _, d := range documents {
		candidates := l.byObject[d.Key]
		if len(candidates) > 0 && (candidates[0].file != file || candidates[0].Line != d.Line) {
			problems = append(problems, manifest.Duplicate(d, candidates[0].Document))
		}
	}
	return problems
}

// flush returns the changes since the last flush: new and different objects in order of precedence,
// then deletions by key. An object that is the same as delivered and now stands on another line is
// in the list of places.
func (l *definitions) flush(now time.Time) ([]source.Change, []source.Place) {
	var upserts []definition
	var deletions []source.Change
	var moved []source.Place
	for key, noticed := range l.changed {
		winner, exists := l.inForce(key)
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
	slices.SortFunc(upserts, definition.compare)
	slices.SortFunc(deletions, func(a, b source.Change) int { return a.Key.Compare(b.Key) })
	changes := make([]source.Change, 0, len(upserts)+len(deletions))
	for _, c := range upserts {
		observed := l.changed[c.Key]
		if observed.IsZero() { // a recorded reading: it counts as seen now
			observed = now
		}
		changes = append(changes, c.Change(observed))
	}
	clear(l.changed)
	return append(changes, deletions...), moved
}

// inForce returns the document that is in force for an object. It decodes a recorded reading at its
// first use. One that an earlier version of Lateen recorded and that cannot be decoded any more is
// dropped.
func (l *definitions) inForce(key source.Key) (definition, bool) {
	for len(l.byObject[key]) > 0 {
		first := &l.byObject[key][0]
		if first.Object != nil {
			return *first, true
		}
		err := first.Decode()
		if err == nil {
			return *first, true
		}
		l.logger.Error(
			"a recorded reading cannot be used", "object", key.String(), "origin", first.Origin, "error", err,
		)
		l.byObject[key] = l.byObject[key][1:]
	}
	delete(l.byObject, key)
	return definition{}, false
}

// reports holds the problems by origin, and those that the sink knows.
type reports struct {
	current map[string][]source.Problem // only what was set since the last flush
	sent    map[string][]source.Problem
}

func newReports() reports {
	return reports{current: map[string][]source.Problem{}, sent: map[string][]source.Problem{}}
}

func (r reports) set(origin string, problems []source.Problem) { r.current[origin] = problems }

// flush returns the reports that differ from what was sent.
func (r reports) flush() []source.Report {
	var changed []source.Report
	for _, origin := range slices.Sorted(maps.Keys(r.current)) {
		problems := r.current[origin]
		if slices.Equal(problems, r.sent[origin]) {
			continue
		}
		changed = append(changed, source.Report{Origin: origin, Problems: problems})
		if len(problems) == 0 {
			delete(r.sent, origin)
		} else {
			r.sent[origin] = problems
		}
	}
	clear(r.current)
	return changed
}
