package dir

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/source"
)

// received is what a sink holds after some events.
type received struct {
	objects  map[source.Key]string
	problems map[string][]source.Problem
}

func newReceived() *received {
	return &received{objects: map[source.Key]string{}, problems: map[string][]source.Problem{}}
}

func (r *received) take(e source.Event) {
	for _, c := range e.Changes {
		if c.Object == nil {
			delete(r.objects, c.Key)
		} else {
			r.objects[c.Key] = c.Object.GetLabels()["v"]
		}
	}
	for _, report := range e.Reports {
		if len(report.Problems) == 0 {
			delete(r.problems, report.Origin)
		} else {
			r.problems[report.Origin] = report.Problems
		}
	}
}

// Whatever happens to a directory, a new process finds in force what the old one had in force: a
// restart changes nothing. And what was delivered in pieces is what is delivered at once.
func TestRestartChangesNothing(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	state := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		disk := &fakeDisk{files: map[string]fakeFile{}, locked: map[string]bool{}}
		records, err := os.MkdirTemp(state, "")
		require.NoError(rt, err)
		now := time.Unix(1_000_000, 0)
		settle := func(tr *tree, into *received) {
			for again := now; !again.IsZero(); {
				now = again
				var event source.Event
				event, again = tr.step(now)
				into.take(event)
			}
		}
		newProcess := func() (*tree, *received) {
			p := delays{settle: 50 * time.Millisecond, suspect: 250 * time.Millisecond, limit: 2 * time.Second}
			return newTree("mesh", p, disk, newRecords(records, logger), logger), newReceived()
		}
		running, got := newProcess()
		settle(running, got)
		for range rapid.IntRange(1, 12).Draw(rt, "rounds") {
			for range rapid.IntRange(1, 3).Draw(rt, "edits") {
				edit(rt, disk, now)
			}
			settle(running, got)
			now = now.Add(time.Second)
			restarted, want := newProcess()
			settle(restarted, want)
			require.Equal(rt, want.objects, got.objects)
			// a new process cannot know what was wrong with files that are out of reach
			if !disk.gone && len(disk.locked) == 0 {
				require.Equal(rt, want.problems, got.problems)
			}
			if rapid.Bool().Draw(rt, "restart") {
				running, got = restarted, want
			}
			now = now.Add(time.Second)
		}
	})
}

// edit does one thing to the directory.
func edit(rt *rapid.T, disk *fakeDisk, now time.Time) {
	path := rapid.SampledFrom([]string{"a.yaml", "b.yaml", "below/c.yaml"}).Draw(rt, "path")
	disk.writes++
	switch rapid.SampledFrom(
		[]string{"write", "write", "write", "write", "remove", "forbid", "gone", "lock"},
	).Draw(rt, "edit") {
	case "write":
		data := someManifest(rt)
		disk.files[path] = fakeFile{
			data: data, stamp: stamp{size: int64(len(data)), modified: now.UnixNano(), inode: disk.writes},
		}
	case "remove":
		delete(disk.files, path)
	case "forbid":
		if f, ok := disk.files[path]; ok {
			f.stamp.mode, f.err = f.stamp.mode+1, fs.ErrPermission
			disk.files[path] = f
		}
	case "gone":
		disk.gone = !disk.gone
	case "lock":
		if disk.locked["below"] {
			delete(disk.locked, "below")
		} else {
			disk.locked["below"] = true
		}
	}
}

// someManifest makes a file of some documents, good and bad.
func someManifest(rt *rapid.T) []byte {
	var out strings.Builder
	for range rapid.IntRange(0, 4).Draw(rt, "documents") {
		name := rapid.SampledFrom([]string{"p", "q", "r"}).Draw(rt, "name")
		version := rapid.IntRange(0, 9).Draw(rt, "version")
		form := rapid.SampledFrom([]string{
			"---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, labels: {v: \"%d\"}}\n",
			"---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, labels: {v: \"%d\"}}\n",
			"---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s, labels: {v: \"%d\"}}\n",
			"---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, labels: {v: %d}}\n",
			"---\napiVersion: v1\nkind: Srevice\nmetadata: {name: %s, labels: {v: \"%d\"}}\n",
			"---\n# %s %d\n",
			"---\n[ %s, %d\n",
		}).Draw(rt, "form")
		fmt.Fprintf(&out, form, name, version)
	}
	return []byte(out.String())
}
