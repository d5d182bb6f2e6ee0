package state

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
)

// fork is a Writer and what it knows, gone its own way.
type fork struct {
	writer  *Writer
	history *meshlife.History
}

// A Writer and its forks each end where a Writer alone would, whoever applies what in whatever
// order.
func TestForksGoOnAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, writer := meshlife.NewHistory(), NewWriter()
		writer.AllocateFrom(smallRange())
		writer.Apply(stateUpdates(h.Begin(t)))
		forks := []fork{{writer, h}}
		for range rapid.SampledFrom([]int{2, 6, 12}).Draw(t, "steps") {
			of := rapid.SampledFrom(forks).Draw(t, "of")
			if len(forks) < 4 && rapid.Bool().Draw(t, "fork") {
				forks = append(forks, fork{of.writer.Fork(), of.history.Fork()})
			}
			before := naiveSnapshotOf(of.history.Present())
			var updates []meshlife.Update
			for range rapid.IntRange(1, 6).Draw(t, "in one batch") {
				updates = append(updates, of.history.Next(t).Updates...)
			}
			_, d := of.writer.Apply(stateUpdates(updates))
			requireDelta(t, before, naiveSnapshotOf(of.history.Present()), d)
		}
		for _, f := range forks {
			requireAnswers(t, naiveSnapshotOf(f.history.Present()), f.writer.Snapshot())
		}
	})
}

// attachmentFork is a Writer with objects of the Gateway API, gone its own way.
type attachmentFork struct {
	writer  *Writer
	present map[source.Key]Update
}

// What attachments come to is each fork's own.
func TestAttachmentsOfForksEqualFromNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		forks := []attachmentFork{{NewWriter(), map[source.Key]Update{}}}
		for range rapid.IntRange(4, 16).Draw(t, "steps") {
			of := rapid.SampledFrom(forks).Draw(t, "of")
			if len(forks) < 4 && rapid.IntRange(0, 2).Draw(t, "fork") == 0 {
				forks = append(forks, attachmentFork{of.writer.Fork(), maps.Clone(of.present)})
			}
			var batch []Update
			for range rapid.IntRange(1, 4).Draw(t, "changes") {
				u := drawAttachment(t)
				batch, of.present[u.Key] = append(batch, u), u
			}
			of.writer.Apply(batch)
		}
		for _, f := range forks {
			fresh := NewWriter()
			expected, _ := fresh.Apply(slices.Collect(maps.Values(f.present)))
			requireSame(
				t, "what attachments come to", attachedObjects(expected), attachedObjects(f.writer.Snapshot()),
			)
			require.Equal(t, fresh.attachments.attached.All(), f.writer.attachments.attached.All())
			require.Equal(t, fresh.attachments.leading.All(), f.writer.attachments.leading.All())
		}
	})
}

// A batch looks as much up in a fork as in the original, however large the mesh is. The original
// pays for a fork with the objects alone that it changes.
func TestAForkCostsItsBatch(t *testing.T) {
	for _, services := range []int{100, 1000} {
		w := NewCountingWriter()
		var mesh []Update
		for i := range services {
			mesh = append(mesh, kubeService("default", "s"+strconv.Itoa(i)))
		}
		w.Apply(mesh)
		lookups := func(w *Writer, u Update) uint64 {
			before := w.Snapshot().Lookups()
			w.Apply([]Update{u})
			return w.Snapshot().Lookups() - before
		}
		f := w.Fork()
		inFork := lookups(f, gone(kubeService("default", "s1")))
		require.Equal(t, lookups(w, gone(kubeService("default", "s1"))), inFork)
		require.Equal(t, 1, f.objects.Own())
		w.Apply([]Update{gone(kubeService("default", "s2"))})
		require.Equal(t, 2, f.objects.Own(), "what the original changed")
		require.Equal(t, services-1, f.Snapshot().Counts().Services)
		require.Equal(t, services-2, w.Snapshot().Counts().Services)
	}
}
