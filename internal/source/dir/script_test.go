package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// TestScripts plays what happens to a directory, at given times, and compares the events. One case
// is one archive in testdata/scripts; the name of each of its files is a line of the script:
//
//	<time> write <path>    the path holds this content from now on
//	<time> cut <path>      as write, but somebody removes the file before it can be read
//	<time> empty <path>    as write, without content, but the file still has the time of the write before
//	<time> remove <path>
//	<time> forbid <path>   the file cannot be read
//	<time> lock <dir>      the directory below cannot be listed; unlock
//	<time> vanish          the whole directory goes; return
//	<time> restart         a new process
//
// Between them the tree is stepped as often as it asks for. It settles after 50ms, is patient for
// 250ms, and waits no longer than 2s.
func TestScripts(t *testing.T) {
	golden.Archives(t, "testdata/scripts", func(
		t *testing.T, in *txtar.Archive,
	) string {
		return newScript(t).play(in.Files)
	})
}

type script struct {
	t     *testing.T
	disk  *fakeDisk
	state string
	tree  *tree
	start time.Time
	again time.Time
	out   strings.Builder
}

func newScript(t *testing.T) *script {
	s := &script{
		t: t, start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), state: t.TempDir(),
		disk: &fakeDisk{files: map[string]fakeFile{}, locked: map[string]bool{}},
	}
	s.restart()
	return s
}

func (s *script) restart() {
	logger := slog.New(slog.DiscardHandler)
	waits := delays{settle: 50 * time.Millisecond, suspect: 250 * time.Millisecond, limit: 2 * time.Second}
	s.tree = newTree("mesh", waits, s.disk, newRecords(s.state, logger), logger)
}

func (s *script) play(lines []txtar.File) string {
	for _, line := range lines {
		fields := strings.Fields(line.Name)
		require.GreaterOrEqual(s.t, len(fields), 2, line.Name)
		after, err := time.ParseDuration(fields[0])
		require.NoError(s.t, err)
		at := s.start.Add(after)
		s.until(at)
		s.act(at, fields[1], strings.Join(fields[2:], " "), line.Data)
		s.step(at)
	}
	s.until(s.start.Add(2 * time.Hour))
	return s.out.String()
}

// until steps the tree when it asks for it, up to a time.
func (s *script) until(end time.Time) {
	for !s.again.IsZero() && s.again.Before(end) {
		s.step(s.again)
	}
}

func (s *script) act(now time.Time, verb, path string, data []byte) {
	s.disk.writes++
	switch verb {
	case "write", "cut":
		s.disk.files[path] = fakeFile{
			data:  data,
			stamp: stamp{size: int64(len(data)), modified: now.UnixNano(), inode: s.disk.writes},
			cut:   verb == "cut",
		}
	case "empty":
		f := s.disk.files[path]
		f.data, f.stamp.size = nil, 0
		s.disk.files[path] = f
	case "remove":
		delete(s.disk.files, path)
	case "forbid":
		f := s.disk.files[path]
		f.stamp.mode, f.err = f.stamp.mode+1, fs.ErrPermission
		s.disk.files[path] = f
	case "lock":
		s.disk.locked[path] = true
	case "unlock":
		delete(s.disk.locked, path)
	case "vanish":
		s.disk.gone = true
	case "return":
		s.disk.gone = false
	case "restart":
		s.restart()
	default:
		s.t.Fatalf("no such verb: %s", verb)
	}
}

func (s *script) step(now time.Time) {
	event, again := s.tree.step(now)
	if !again.IsZero() {
		require.True(s.t, again.After(now), "it asks to be stepped in the future")
	}
	s.again = again
	at := now.Sub(s.start)
	for _, c := range event.Changes {
		verb := "delete"
		if c.Object != nil {
			verb = fmt.Sprintf("%v", c.Object.GetLabels())
		}
		fmt.Fprintf(&s.out, "%v: %s at %s, noticed at %v: %s\n", at, c.Key, c.Origin, c.ObservedAt.Sub(s.start), verb)
	}
	for _, p := range event.Moved {
		fmt.Fprintf(&s.out, "%v: %s stands at %s\n", at, p.Key, p.Origin)
	}
	for _, r := range event.Reports {
		fmt.Fprintf(&s.out, "%v: report on %s\n", at, r.Origin)
		for _, p := range r.Problems {
			fmt.Fprintf(&s.out, "    %s\n", p)
		}
	}
	if event.Synced {
		fmt.Fprintf(&s.out, "%v: synced\n", at)
	}
}

// fakeDisk is a directory in memory.
type fakeDisk struct {
	files  map[string]fakeFile
	locked map[string]bool
	gone   bool
	writes uint64
}

type fakeFile struct {
	data  []byte
	stamp stamp
	err   error
	cut   bool
}

func (d *fakeDisk) scan() snapshot {
	s := snapshot{files: map[string]stamp{}, problems: map[string][]source.Problem{}}
	if d.gone {
		s.err = &fs.PathError{Op: "open", Path: "mesh", Err: errors.New("no such file or directory")}
		return s
	}
	for dir := range d.locked {
		s.unreadable = append(s.unreadable, dir)
		s.problems["mesh/"+dir] = []source.Problem{
			{Severity: source.Error, Origin: "mesh/" + dir, Message: "the directory cannot be listed"},
		}
	}
	for path, f := range d.files {
		if !s.hides(path) {
			s.files[path] = f.stamp
		}
	}
	return s
}

func (d *fakeDisk) read(path string) ([]byte, stamp, error) {
	f := d.files[path]
	if f.cut {
		delete(d.files, path)
		return nil, stamp{}, fs.ErrNotExist
	}
	return f.data, f.stamp, f.err
}
