package livemesh

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Dir is the directory of manifests.
func (m *Mesh) Dir() string { return m.dir }

// Path is where a file of the mesh stands; problems name it.
func (m *Mesh) Path(name string) string { return filepath.Join(m.dir, name) }

// Write writes a file, in place of the one that stands there: at once, so that the mesh never sees
// a part of it, however busy the machine is.
func (m *Mesh) Write(name, content string) {
	m.t.Helper()
	path := m.Path(name)
	require.NoError(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(m.t, os.WriteFile(path+".new", []byte(content), 0o644)) // a name that is not read
	require.NoError(m.t, os.Rename(path+".new", path))
}

// Delete removes a file.
func (m *Mesh) Delete(name string) {
	m.t.Helper()
	require.NoError(m.t, os.Remove(m.Path(name)))
}

// DeleteAllBut removes all files but some: what a test that failed has left.
func (m *Mesh) DeleteAllBut(names ...string) {
	m.t.Helper()
	files, err := os.ReadDir(m.dir)
	require.NoError(m.t, err)
	for _, f := range files {
		if f.Name() != markerFile && !slices.Contains(names, f.Name()) {
			m.Delete(f.Name())
		}
	}
}

// Apply writes the files of a txtar archive and settles.
func (m *Mesh) Apply(files string) {
	m.t.Helper()
	m.writeAll(files)
	m.Settle()
}

func (m *Mesh) writeAll(files string) (names []string) {
	m.t.Helper()
	archive := txtar.Parse([]byte(files))
	require.NotEmpty(m.t, archive.Files, "want a txtar archive: -- name.yaml --")
	require.Empty(m.t, strings.TrimSpace(string(archive.Comment)), "stands before the first file")
	for _, f := range archive.Files {
		m.Write(f.Name, string(f.Data))
		names = append(names, f.Name)
	}
	return names
}

// Settle waits until all that was written is read, all pods are ready, and every proxy serves by
// it.
func (m *Mesh) Settle() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m.mark(ctx)
	before := m.mark(ctx) // a removal counts from when it was noticed, which the first marker does not wait for
	s, err := m.tap.Await(ctx, func(s *local.Snapshot) bool { return s != before && s.Ready() })
	if err != nil {
		m.t.Fatalf("not everything is ready:\n%s", m.describe(s))
	}
	m.notePIDs()
	if err := m.pipeline.Settle(ctx); err != nil {
		m.t.Fatalf("not every proxy has accepted everything: %v\n%s", err, m.describe(s))
	}
	for _, p := range m.Pods() {
		if !hasEnvoy(p) || !p.Ready {
			continue
		}
		err := awaitWarm(ctx, p)
		if err == nil {
			err = awaitWorker(ctx, p)
		}
		if err != nil && m.runs(p) {
			m.t.Fatalf("the Envoy of %s/%s: %v\n%s", p.Namespace, p.Name, err, m.describe(m.tap.Snapshot()))
		}
	}
}

// runs tells that a pod has not begun to leave meanwhile.
func (m *Mesh) runs(pod local.PodStatus) bool {
	return slices.ContainsFunc(m.Pods(), func(p local.PodStatus) bool {
		return p.Name == pod.Name && p.Since.Equal(pod.Since) && p.Ready
	})
}

// markerFile tells how far the directory was read.
const markerFile = "livemesh-marker.yaml"

// mark waits until the directory was read as it stands now. The marker is a file that loses its
// only object for another one: that takes the directory as long as anything can, so that all that
// was written before has been read with it.
func (m *Mesh) mark(ctx context.Context) *local.Snapshot {
	m.t.Helper()
	m.mu.Lock()
	m.markers++
	name := fmt.Sprintf("marker-%d", m.markers)
	m.mu.Unlock()
	passed := m.tap.expect(source.Key{Kind: kinds.ConfigMap, Namespace: "livemesh", Name: name})
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n  namespace: livemesh\n"
	m.Write(markerFile, manifest)
	select {
	case s := <-passed:
		return s
	case <-ctx.Done():
		m.t.Fatalf("the directory was not read:\n%s", m.describe(m.tap.Snapshot()))
		return nil
	}
}

func (m *Mesh) describe(s *local.Snapshot) string {
	var b strings.Builder
	for _, p := range s.Pods {
		fmt.Fprintf(&b, "  %s/%s: %s %s\n", p.Namespace, p.Name, p.State, p.Why)
	}
	for _, p := range m.Problems() {
		fmt.Fprintf(&b, "  %s\n", p)
	}
	for _, c := range m.pipeline.Clients() {
		for _, st := range c.Types {
			if st.Sent != st.Acked || st.Nack != "" {
				fmt.Fprintf(&b, "  %s: sent %q, acked %q %s\n", c.Node.Name, st.Sent, st.Acked, st.Nack)
			}
		}
	}
	return b.String()
}
