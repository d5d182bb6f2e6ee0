package dir

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// run is a source that runs on a directory of the machine.
type run struct {
	t    *testing.T
	path string

	mu       sync.Mutex
	received *received
	synced   bool
	changed  chan struct{} // latest-value: holds one signal until it is taken
	stop     func()
}

// start runs a source. The system's announcements alone wake it: the slow look at everything never
// comes.
func start(t *testing.T, path, state string) *run {
	r := &run{t: t, path: path, received: newReceived(), changed: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	src := New(Options{
		Path: path, StateDir: state, Logger: slog.New(slog.DiscardHandler), Settle: 5 * time.Millisecond,
		Rescan: time.Hour,
	})
	go func() { done <- src.Run(ctx, r.sink) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(r.stop)
	r.wait(func() bool { return r.synced })
	return r
}

func (r *run) sink(e source.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received.take(e)
	r.synced = r.synced || e.Synced
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// wait returns once a condition on what was received holds.
func (r *run) wait(condition func() bool) {
	r.t.Helper()
	deadline := time.After(3 * time.Minute)
	for {
		r.mu.Lock()
		ok := condition()
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-r.changed:
		case <-deadline:
			r.t.Fatalf("it did not come about; received %v", *r.received)
		}
	}
}

// waitFor returns once the versions of the Services are as given.
func (r *run) waitFor(want map[string]string) {
	r.t.Helper()
	r.wait(func() bool {
		got := map[string]string{}
		for key, version := range r.received.objects {
			got[key.Name] = version
		}
		return maps.Equal(got, want)
	})
}

// waitProblem returns once a file, or the directory, has a report, or has none any more.
func (r *run) waitProblem(path string, want bool) {
	r.t.Helper()
	r.wait(func() bool { return (len(r.received.problems[filepath.Join(r.path, path)]) > 0) == want })
}

func service(name, version string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, labels: {v: %q}}\n", name, version)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// replace does as some editors do: it writes a new file, and renames it over the old one.
func replace(t *testing.T, path, content string) {
	t.Helper()
	write(t, path+".new", content)
	require.NoError(t, os.Rename(path+".new", path))
}

func TestEdits(t *testing.T) {
	path := t.TempDir()
	file := filepath.Join(path, "a.yaml")
	write(t, file, service("a", "1")+service("b", "1"))
	r := start(t, path, t.TempDir())
	r.waitFor(map[string]string{"a": "1", "b": "1"})

	write(t, file, service("a", "2")+service("b", "1"))
	r.waitFor(map[string]string{"a": "2", "b": "1"})

	replace(t, file, service("a", "3"))
	r.waitFor(map[string]string{"a": "3"})

	// Not as above: one who writes in place empties the file first, and if that takes long the
	// source has to believe it.
	replace(t, file, service("a", "4")+"spec: [")
	r.waitProblem("a.yaml", true)
	r.waitFor(map[string]string{"a": "3"})

	write(t, file, service("a", "5"))
	r.waitFor(map[string]string{"a": "5"})
	r.waitProblem("a.yaml", false)

	require.NoError(t, os.Remove(file))
	r.waitFor(map[string]string{})
}

func TestDirectoriesBelow(t *testing.T) {
	path := t.TempDir()
	r := start(t, path, t.TempDir())
	write(t, filepath.Join(path, "new", "deep", "a.yaml"), service("a", "1"))
	r.waitFor(map[string]string{"a": "1"})

	require.NoError(t, os.Rename(filepath.Join(path, "new"), filepath.Join(path, "other")))
	write(t, filepath.Join(path, "other", "deep", "b.yaml"), service("b", "1"))
	r.waitFor(map[string]string{"a": "1", "b": "1"})
	write(t, filepath.Join(path, "other", "deep", "b.yaml"), service("b", "2"))
	r.waitFor(map[string]string{"a": "1", "b": "2"})

	require.NoError(t, os.RemoveAll(filepath.Join(path, "other")))
	r.waitFor(map[string]string{})
}

func TestFilesThatAreRead(t *testing.T) {
	path, outside := t.TempDir(), t.TempDir()
	state := filepath.Join(path, "state") // inside of what is read: left out
	write(t, filepath.Join(path, "a.yaml"), service("a", "1"))
	write(t, filepath.Join(path, "b.yml"), service("b", "1"))
	write(
		t, filepath.Join(path, "c.json"),
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"c","labels":{"v":"1"}}}`,
	)
	for _, ignored := range []string{
		".#a.yaml", "a.yaml~", ".a.yaml.swp", "#a.yaml#", ".git/x.yaml", "notes.txt", "4913",
	} {
		write(t, filepath.Join(path, ignored), service("ignored", "1"))
	}
	write(t, filepath.Join(outside, "d", "real"), service("d", "1"))
	write(t, filepath.Join(outside, "e", "e.yaml"), service("e", "1"))
	require.NoError(t, os.Symlink(filepath.Join(outside, "d", "real"), filepath.Join(path, "d.yaml")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "e"), filepath.Join(path, "e")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(path, "f.yaml")))

	r := start(t, path, state)
	r.waitFor(map[string]string{"a": "1", "b": "1", "c": "1", "d": "1"})
	r.waitProblem("e", true)
	r.waitProblem("f.yaml", true)

	write(t, filepath.Join(outside, "d", "real"), service("d", "2"))
	r.waitFor(map[string]string{"a": "1", "b": "1", "c": "1", "d": "2"})
	require.NoError(t, os.Remove(filepath.Join(path, "f.yaml")))
	r.waitProblem("f.yaml", false)
}

func TestDirectoryVanishesAndReturns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh")
	write(t, filepath.Join(path, "a.yaml"), service("a", "1"))
	r := start(t, path, t.TempDir())
	r.waitFor(map[string]string{"a": "1"})

	require.NoError(t, os.Rename(path, path+".away"))
	r.waitProblem("", true)
	r.waitFor(map[string]string{"a": "1"})

	write(t, filepath.Join(path+".new", "a.yaml"), service("a", "2"))
	require.NoError(t, os.Rename(path+".new", path))
	r.waitProblem("", false)
	r.waitFor(map[string]string{"a": "2"})

	write(t, filepath.Join(path, "a.yaml"), service("a", "3")) // the new directory is watched
	r.waitFor(map[string]string{"a": "3"})
}

func TestRestartWithBrokenFile(t *testing.T) {
	path, state := t.TempDir(), t.TempDir()
	write(t, filepath.Join(path, "a.yaml"), service("a", "1"))
	first := start(t, path, state)
	first.waitFor(map[string]string{"a": "1"})
	first.stop()

	write(t, filepath.Join(path, "a.yaml"), service("a", "2")+"spec: {")
	second := start(t, path, state)
	second.waitFor(map[string]string{"a": "1"})
	second.waitProblem("a.yaml", true)

	write(t, filepath.Join(path, "a.yaml"), service("a", "3"))
	second.waitFor(map[string]string{"a": "3"})
	second.waitProblem("a.yaml", false)
}

// A state directory that cannot be written, or that holds something else, is reported or passed
// over, and the files are read.
func TestUnusableStateDirectoryIsReported(t *testing.T) {
	path, state := t.TempDir(), t.TempDir()
	write(t, filepath.Join(path, "a.yaml"), service("a", "1"))
	write(t, filepath.Join(state, "x"+recordSuffix), "{}")
	write(t, filepath.Join(state, "y"+recordSuffix), "nonsense")
	write(
		t, newRecords(state, nil).fileName("a.yaml"),
		`{"file":"a.yaml","objects":[{"kind":"Service","name":"b","object":[]}]}`,
	)
	start(t, path, state).waitFor(map[string]string{"a": "1"})

	write(t, filepath.Join(path, "file"), "")
	r := start(t, path, filepath.Join(path, "file", "state"))
	r.waitFor(map[string]string{"a": "1"})
	r.waitProblem("", true)
}
