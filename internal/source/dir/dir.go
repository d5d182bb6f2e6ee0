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
	// Path is the directory of manifests: every *.yaml, *.yml and *.json in it and below, but what is hidden.
	// Links to files are followed, links to directories are not. Origins begin with it.
	Path string
	// StateDir is a directory for this source alone where the last valid reading of each file is recorded; it is
	// created. Empty: a restart forgets the readings of files that are broken by then.
	StateDir string
	// Logger is told what is wrong with the watching itself; what is wrong with files goes into reports.
	// Nil means slog.Default.
	Logger *slog.Logger
	// Settle is how long a file must stand still before it is read; 0 means 50 ms. A file with errors, or without
	// objects that it had, must stand still five times as long, and one that is empty now 40 times. None is waited for longer.
	Settle time.Duration
	// Rescan is how often the directory is looked at without an announcement by the system; 0 means 10 s. It is
	// looked at each second while something in it cannot be watched.
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

// Run implements source.Source: it delivers the objects of the directory, and then what changes. The first event
// has all that stood there, in order of paths and positions. The error is nil: a directory that cannot be read
// is reported, and read when it can be. Nothing is queued: while the sink blocks, the kernel keeps announcements,
// and when it has no room for them it says so, upon which all files are looked at.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	o := s.options
	watcher := newWatcher(o.Logger)
	defer watcher.close()
	d := &osDisk{root: o.Path, watch: watcher.add}
	if absolute, err := filepath.Abs(o.StateDir); err == nil && o.StateDir != "" {
		d.skip = absolute
	}
	pace := pace{settle: o.Settle, patience: 5 * o.Settle, limit: 40 * o.Settle}
	tree := newTree(o.Path, pace, d, newRecords(o.StateDir, o.Logger), o.Logger)
	for ctx.Err() == nil {
		event, again := tree.step(time.Now())
		if event.Synced || len(event.Changes) > 0 || len(event.Moved) > 0 || len(event.Reports) > 0 {
			sink(event)
		}
		if watcher.end() {
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
		s.gather(ctx, w)
	}
}

// gather takes the announcements that come with the first, such as those of a writer that writes in pieces, so that
// one look at the directory answers them all.
func (s *Source) gather(ctx context.Context, w *watcher) {
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
