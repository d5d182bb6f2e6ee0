package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
)

// delays says how long a file must stay unchanged before its content counts.
type delays struct {
	// settle is for content that reads well.
	settle time.Duration
	// suspect is for content with errors, or with fewer objects than before. It may be
	// half-written, or an editor may have moved the file away to write a new one.
	suspect time.Duration
	// limit is the longest wait for a file that keeps changing, and the wait for a file that is
	// empty.
	limit time.Duration
}

// tree follows the files of a directory. It is a state machine: step scans the disk at a given time
// and returns what has changed. It starts no goroutine and reads no clock.
type tree struct {
	root    string // as the user wrote it; origins begin with it
	delays  delays
	disk    disk
	records *records
	logger  *slog.Logger

	files       map[string]*file
	pending     map[string]*pending
	definitions *definitions
	reports     reports
	// badDirectories are the origins of the reports about directories, as of the last scan.
	badDirectories map[string]bool
	synced         bool
}

// file is what is known of one file.
type file struct {
	stamp     stamp // when it was read; zero for a recorded reading
	documents []manifest.Document
	problems  []source.Problem
}

// pending is a file that differs from what was read of it.
type pending struct {
	stamp   stamp
	gone    bool
	noticed time.Time // when it first differed
	since   time.Time // when it was changed last, as far as is known
}

// newTree starts with the recorded readings, as if they had just been read.
func newTree(root string, waits delays, disk disk, records *records, logger *slog.Logger) *tree {
	t := &tree{
		root:        filepath.Clean(root),
		delays:      waits,
		disk:        disk,
		records:     records,
		logger:      logger,
		files:       map[string]*file{},
		pending:     map[string]*pending{},
		definitions: newDefinitions(logger),
		reports:     newReports(),
	}
	for path, documents := range records.load() {
		for i := range documents {
			documents[i].Origin = manifest.Origin(t.origin(path), documents[i].Line)
		}
		t.files[path] = &file{documents: documents}
		t.definitions.replace(path, nil, documents, time.Time{})
	}
	return t
}

// step scans the disk. It returns what has changed, and the latest time of the next scan (zero: no
// need). It returns no changes before everything that was in the directory at the start is read.
func (t *tree) step(now time.Time) (event source.Event, again time.Time) {
	snapshot := t.disk.scan()
	if snapshot.err == nil {
		t.compare(now, snapshot)
		again = t.readPending(now)
	} else {
		clear(t.pending) // what stands there is noticed anew when the directory is back
	}
	t.reportDirectories(snapshot)
	if !t.synced {
		if len(t.pending) > 0 {
			return source.Event{}, again
		}
		t.synced, event.Synced = true, true
	}
	event.Changes, event.Moved = t.definitions.flush(now)
	event.Reports = t.reports.flush()
	return event, again
}

// compare finds the files whose state on disk differs from what was read.
func (t *tree) compare(now time.Time, s snapshot) {
	for path, found := range s.files {
		p := t.pending[path]
		switch f := t.files[path]; {
		case f != nil && f.stamp == found:
			delete(t.pending, path) // it was away for a moment
		case p == nil:
			t.pending[path] = &pending{stamp: found, noticed: now, since: t.lastWrite(found, now)}
		case p.gone || p.stamp != found:
			p.gone, p.stamp, p.since = false, found, t.lastWrite(found, now)
		}
	}
	for path := range t.files {
		if _, found := s.files[path]; found {
			continue
		}
		p := t.pending[path]
		switch {
		case s.hides(path):
			delete(t.pending, path)
		case p == nil && !t.synced: // a recorded file that was removed while nobody looked
			t.pending[path] = &pending{gone: true, noticed: now}
		case p == nil:
			t.pending[path] = &pending{gone: true, noticed: now, since: now}
		case !p.gone:
			p.gone, p.since = true, now
		}
	}
	maps.DeleteFunc(t.pending, func(path string, _ *pending) bool {
		_, found := s.files[path]
		return !found && t.files[path] == nil // a new file that has gone again
	})
}

// lastWrite returns when a file was written last. At the start it trusts the file's own time unless
// that lies in the future, so that nobody waits for old files. Later it is the time at which the
// change was noticed. A file that is truncated to be rewritten has its new size first, and keeps
// its old time until the file system is done, which takes long on a busy disk.
func (t *tree) lastWrite(s stamp, now time.Time) time.Time {
	if modified := time.Unix(0, s.modified); !t.synced && s.fault == "" && modified.Before(now) {
		return modified
	}
	return now
}

// readPending reads the files that have settled, and returns when the next one may have.
func (t *tree) readPending(now time.Time) (again time.Time) {
	for _, path := range slices.Sorted(maps.Keys(t.pending)) {
		if wait := t.readOne(now, path); wait > 0 && (again.IsZero() || now.Add(wait).Before(again)) {
			again = now.Add(wait)
		}
	}
	return again
}

// readOne reads a file, or returns how long to wait because it may still be being written.
func (t *tree) readOne(now time.Time, path string) (wait time.Duration) {
	p := t.pending[path]
	quiet, overdue := now.Sub(p.since), now.Sub(p.noticed) >= t.delays.limit
	if quiet < t.delays.settle && !overdue {
		return t.delays.settle - quiet
	}
	before := t.files[path]
	if before == nil {
		before = &file{}
	}
	after, changed := t.readFile(path, p, before)
	if changed && !overdue {
		p.since = now
		return t.delays.settle
	}
	longer := t.delays.suspect
	if !p.gone && p.stamp.size == 0 {
		// Most likely its writer waits for a busy disk. To delete objects, people remove the file.
		longer = t.delays.limit
	}
	if after.isWorseThan(before) && quiet < longer && !overdue {
		return longer - quiet
	}
	delete(t.pending, path)
	t.accept(path, before, after, p)
	return 0
}

// readFile reads a file. changed reports whether somebody wrote to it meanwhile.
func (t *tree) readFile(path string, p *pending, before *file) (after *file, changed bool) {
	if p.gone {
		return &file{}, false
	}
	var r manifest.Reading
	fault := p.stamp.fault
	if fault == "" {
		data, found, err := t.disk.read(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &file{}, true
		case err != nil:
			fault = reason(err)
		default:
			changed = found != p.stamp
			r = manifest.ReadFile(t.origin(path), data)
		}
	}
	if fault != "" {
		r = manifest.Failed(source.Problem{
			Origin:  t.origin(path),
			Message: "the file cannot be read: " + fault,
			Want:    "a file that Lateen may read",
		})
	}
	documents, notes := keepLastValid(r, t.origin(path), before.documents)
	return &file{stamp: p.stamp, documents: documents, problems: append(r.Problems, notes...)}, changed
}

// isWorseThan reports whether a file has errors or lacks objects that it had: a reason to read it
// again later.
func (f *file) isWorseThan(before *file) bool {
	if slices.ContainsFunc(f.problems, func(p source.Problem) bool { return p.Severity == source.Error }) {
		return true
	}
	keys := map[source.Key]bool{}
	for _, d := range f.documents {
		keys[d.Key] = true
	}
	return slices.ContainsFunc(before.documents, func(d manifest.Document) bool { return !keys[d.Key] })
}

// accept replaces the earlier reading of a file.
func (t *tree) accept(path string, before, after *file, p *pending) {
	if p.gone {
		delete(t.files, path)
	} else {
		t.files[path] = after
	}
	contested := t.definitions.replace(path, before.documents, after.documents, p.noticed)
	contested[path] = true
	for other := range contested {
		t.reportFile(other)
	}
	if err := t.records.save(path, after.documents); err != nil {
		t.logger.Error("the last valid reading of a file cannot be recorded", "file", t.origin(path), "error", err)
	}
}

// reportFile reports what is wrong with a file. That includes objects which another file defines
// with precedence.
func (t *tree) reportFile(path string) {
	var problems []source.Problem
	if f := t.files[path]; f != nil {
		problems = append(slices.Clone(f.problems), t.definitions.shadowed(path, f.documents)...)
		manifest.SortProblems(problems)
	}
	t.reports.set(t.origin(path), problems)
}

// reportDirectories reports what is wrong with the directory and those below.
func (t *tree) reportDirectories(s snapshot) {
	problems := s.problems
	if s.err != nil {
		problems = map[string][]source.Problem{t.root: {{
			Severity: source.Error,
			Origin:   t.root,
			Message:  fmt.Sprintf("the directory cannot be read: %s; the last state stays in force", reason(s.err)),
			Want:     "a directory of manifests",
		}}}
	} else if fault := t.records.failure(); fault != "" {
		problems[t.root] = []source.Problem{{
			Severity: source.Warning,
			Origin:   t.root,
			Message:  "last valid readings cannot be recorded: " + fault + "; a restart would forget them",
			Want:     "a state directory that Lateen may write",
		}}
	}
	for stray := range t.badDirectories {
		if problems[stray] == nil && (s.err == nil || stray == t.root) {
			t.reports.set(stray, nil)
			delete(t.badDirectories, stray)
		}
	}
	if t.badDirectories == nil {
		t.badDirectories = map[string]bool{}
	}
	for at, p := range problems {
		t.badDirectories[at] = true
		t.reports.set(at, p)
	}
}

// origin returns the path of a file as the user would write it.
func (t *tree) origin(path string) string {
	return filepath.Join(t.root, filepath.FromSlash(path))
}
