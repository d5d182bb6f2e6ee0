package manifests

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/dir"
)

// TestNeitherOrderNorRestartsMatter: whatever was written to a directory in whatever order, good
// and bad, a process that is started anew has the same resources and problems as the one that saw
// it all; and once everything can be read, they are those of the manifests alone, however they are
// spread over files.
func TestNeitherOrderNorRestartsMatter(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		d := newDirectory(rt, root)
		running := d.run(rt)
		d.catchUp(running)
		for range rapid.IntRange(0, 3).Draw(rt, "rounds") {
			for range rapid.IntRange(1, 4).Draw(rt, "edits") {
				d.edit(rt)
			}
			d.catchUp(running)
			fresh := d.requireSameAfterRestart(rt, running)
			if rapid.Bool().Draw(rt, "restart") {
				running.stop()
				running = fresh
				continue
			}
			fresh.stop()
		}
		last := drawMesh(rt)
		d.arrange(rt, last)
		d.catchUp(running)
		d.requireSameAfterRestart(rt, running)

		plain := newDirectory(rt, root)
		plain.arrangeApart(last)
		want := plain.run(rt)
		want.settle()
		require.Equal(rt, want.problems(), running.problems())
		require.Equal(rt, want.resources(), running.resources())
	})
}

// directory is where manifests are written, with the record of what could be read.
type directory struct {
	t           tester
	path, state string
	writes      int
}

func newDirectory(t tester, root string) *directory {
	at, err := os.MkdirTemp(root, "")
	require.NoError(t, err)
	d := &directory{t: t, path: filepath.Join(at, "manifests"), state: filepath.Join(at, "state")}
	require.NoError(t, os.Mkdir(d.path, 0o755))
	return d
}

// run starts a process that reads the directory.
func (d *directory) run(t tester) *mesh {
	return start(t, dir.New(dir.Options{
		Path:     d.path,
		StateDir: d.state,
		Logger:   slog.New(slog.DiscardHandler),
		Settle:   time.Millisecond,
	}))
}

// write puts a file in its place at once. Each has a time of its own, as it would at the pace of
// people.
func (d *directory) write(name, content string) {
	d.writes++
	at := filepath.Join(d.path, name)
	require.NoError(d.t, os.WriteFile(at+".new", []byte("# manifests\n"+content), 0o644))
	written := time.Unix(1_000_000_000+int64(d.writes), 0)
	require.NoError(d.t, os.Chtimes(at+".new", written, written))
	require.NoError(d.t, os.Rename(at+".new", at))
}

func (d *directory) remove(name string) {
	if err := os.Remove(filepath.Join(d.path, name)); !os.IsNotExist(err) {
		require.NoError(d.t, err)
	}
}

// catchUp waits until a process has taken in what stands in the directory. A file that loses its
// only object for another one takes the directory as long as anything; the second round is for
// removals, which count from when they were noticed.
func (d *directory) catchUp(m *mesh) {
	m.settle()
	for range 2 {
		name := fmt.Sprintf("marker-%d", d.writes)
		passed := m.expect(source.Key{Kind: kinds.ConfigMap, Namespace: "marker", Name: name})
		d.write("zz-marker.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+", namespace: marker}\n")
		select {
		case <-passed:
		case <-time.After(3 * time.Minute): // a busy machine takes long for anything
			require.FailNow(d.t, "the directory was not read")
		}
	}
	m.settle()
}

func (d *directory) requireSameAfterRestart(t *rapid.T, m *mesh) *mesh {
	fresh := d.run(t)
	fresh.settle()
	require.Equal(t, m.store.Problems(), fresh.store.Problems())
	require.Equal(t, m.resources(), fresh.resources())
	return fresh
}

var files = []string{"a.yaml", "b.yaml", "c.yaml"}

// edit does one thing to the directory: it writes documents, good and bad, or removes a file.
func (d *directory) edit(rt *rapid.T) {
	file := rapid.SampledFrom(files).Draw(rt, "file")
	if rapid.IntRange(0, 5).Draw(rt, "remove") == 0 {
		d.remove(file)
		return
	}
	var content strings.Builder
	for range rapid.IntRange(0, 6).Draw(rt, "documents") {
		if doc := drawDocument(rt); rapid.IntRange(0, 4).Draw(rt, "bad") == 0 {
			content.WriteString(doc.unreadable(rt))
		} else {
			content.WriteString(doc.String())
		}
	}
	d.write(file, content.String())
}

// drawMesh draws documents of different objects.
func drawMesh(rt *rapid.T) []document {
	all := map[string]document{}
	for range rapid.IntRange(4, 16).Draw(rt, "objects") {
		doc := drawDocument(rt)
		all[doc.key()] = doc
	}
	var list []document
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[key])
	}
	return list
}

// arrange spreads documents over the files in any way, and writes those in any order.
func (d *directory) arrange(rt *rapid.T, documents []document) {
	content := map[string]string{}
	for _, doc := range rapid.Permutation(documents).Draw(rt, "order") {
		content[rapid.SampledFrom(files).Draw(rt, "into")] += doc.String()
	}
	for _, file := range rapid.Permutation(files).Draw(rt, "written") {
		if content[file] == "" {
			d.remove(file) // an empty file keeps its objects
			continue
		}
		d.write(file, content[file])
	}
}

// arrangeApart writes each document into a file of its own.
func (d *directory) arrangeApart(documents []document) {
	for i, doc := range documents {
		d.write(fmt.Sprintf("%02d.yaml", i), doc.String())
	}
}
