package dir

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/lateen-mesh/lateen/internal/source"
)

// Options say what to read and how to watch it.
type Options struct {
	// Path is the directory of manifests: every *.yaml, *.yml and *.json in it and below, except
	// hidden ones. Links to files are followed, links to directories are not. Origins begin with
	// it.
	Path string
	// StateDir is a directory for this source alone. The last valid reading of each file is
	// recorded there. It is created if needed. If it is empty, a restart forgets the readings of
	// files that are broken by then.
	StateDir string
	// Logger gets problems of the watching itself. Problems of files go into reports. Nil means
	// slog.Default.
	Logger *slog.Logger
	// Settle is how long a file must stay unchanged before it is read; 0 means 50 ms. A file with
	// errors, or one that lost objects, must stay unchanged five times as long. For an empty file,
	// and as the longest wait for any file, it is 40 times.
	Settle time.Duration
	// Rescan is the interval between scans when the system announces no change; 0 means 10 s. It is
	// one second while something in the directory cannot be watched.
	Rescan time.Duration
}

// Source is a directory of manifests. It implements source.Source.
type Source struct {
	options Options
}

// New returns a source that reads nothing before it is run.
func New(o Options) *Source {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Settle = cmp.Or(o.Settle, 50*time.Millisecond)
	o.Rescan = cmp.Or(o.Rescan, 10*time.Second)
	return &Source{options: o}
}

// Run implements source.Source: it delivers the objects of the directory, and then what changes.
// The first event holds everything that was there, in order of paths and positions. The error is
// nil: a directory that cannot be read is reported, and read as soon as it can be. Nothing is
// queued here: while the sink blocks, the kernel keeps the announcements. When it runs out of room
// it says so, and all files are scanned.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	o := s.options
	watcher := newWatcher(o.Logger)
	defer watcher.close()
	d := &osDisk{root: o.Path, watch: watcher.add}
	if absolute, err := filepath.Abs(o.StateDir); err == nil && o.StateDir != "" {
		d.skip = absolute
	}
	waits := delays{settle: o.Settle, suspect: 5 * o.Settle, limit: 40 * o.Settle}
	tree := newTree(o.Path, waits, d, newRecords(o.StateDir, o.Logger), o.Logger)
	for ctx.Err() == nil {
		event, again := tree.step(time.Now())
		if event.Synced || len(event.Changes) > 0 || len(event.Moved) > 0 || len(event.Reports) > 0 {
			sink(event)
		}
		if watcher.endScan() {
			continue
		}
		s.wait(ctx, watcher, again)
	}
	return nil
}

// wait returns when it is time to look at the directory again.
func (s *Source) wait(ctx context.Context, w *watcher, again time.Time) {
	pause := s.options.Rescan
	if w.failed {
		pause = min(pause, time.Second)
	}
	if !again.IsZero() {
		pause = min(pause, time.Until(again))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case err := <-w.errors():
		s.options.Logger.Warn("announcements of changes were lost; looking at all files", "error", err)
	case <-w.events():
		s.coalesce(ctx, w)
	}
}

// coalesce takes the announcements that follow the first within a fifth of the settle time, so that
// one scan answers them all. A writer that writes in pieces causes many.
func (s *Source) coalesce(ctx context.Context, w *watcher) {
	timer := time.NewTimer(s.options.Settle / 5)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-w.events():
		}
	}
}
