package dir

import (
	"errors"
	"io/fs"
	"log/slog"

	"github.com/fsnotify/fsnotify"
)

// watcher reports that something happened in the scanned directories, and no more: the scan finds
// out what. So lost or merged events do no harm.
type watcher struct {
	notify *fsnotify.Watcher // nil when the system has no watches left
	logger *slog.Logger
	wanted map[string]bool // named by the scan that is under way
	dirs   map[string]bool // being watched
	failed bool            // a directory of the last scan is not watched
}

func newWatcher(logger *slog.Logger) *watcher {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		logger.Warn("changes of files are not announced by the system; looking every second", "error", err)
		notify = nil
	}
	return &watcher{notify: notify, logger: logger, wanted: map[string]bool{}, dirs: map[string]bool{}}
}

// add watches a directory. It is called before the directory is listed. Adding one that is watched
// already costs a system call, and notices when another directory has taken its place.
func (w *watcher) add(dir string) {
	w.wanted[dir] = true
	if w.notify == nil {
		return
	}
	err := w.notify.Add(dir)
	if err == nil {
		w.dirs[dir] = true
		return
	}
	if (w.dirs[dir] || !w.failed) && !errors.Is(err, fs.ErrNotExist) {
		w.logger.Warn("a directory cannot be watched; looking every second", "directory", dir, "error", err)
	}
	delete(w.dirs, dir)
}

// endScan drops the watches of directories that are gone. again asks for another scan: a renamed
// directory shared its watch with its old name, and has lost it now.
func (w *watcher) endScan() (again bool) {
	w.failed = len(w.dirs) == 0
	for dir := range w.wanted {
		w.failed = w.failed || !w.dirs[dir]
	}
	for dir := range w.dirs {
		if w.wanted[dir] {
			continue
		}
		_ = w.notify.Remove(dir) // fails when the system has dropped it already
		delete(w.dirs, dir)
		again = true
	}
	clear(w.wanted)
	return again
}

// events returns the announcements; nil, which blocks forever, without a watcher.
func (w *watcher) events() <-chan fsnotify.Event {
	if w.notify == nil {
		return nil
	}
	return w.notify.Events
}

// errors returns what reports that announcements were lost.
func (w *watcher) errors() <-chan error {
	if w.notify == nil {
		return nil
	}
	return w.notify.Errors
}

func (w *watcher) close() {
	if w.notify == nil {
		return
	}
	if err := w.notify.Close(); err != nil {
		w.logger.Warn("the watcher of files cannot be closed", "error", err)
	}
}
