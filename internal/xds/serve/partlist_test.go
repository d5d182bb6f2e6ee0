package serve

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/xds/admission"
)

// What grpc-go reads of a response of many parts is what they say, however it reads, and it is told
// of when all is read.
func TestPiecesHaveTheBytesOfTheParts(t *testing.T) {
	var l pools
	var total atomic.Int64
	o := &outgoing{pools: &l, queue: admission.SendQueue{Total: &total}}
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 300), rapid.IntRange(1, 3*pieceSize)), 3, 200).
			Draw(t, "sizes")
		o.prepare(len(sizes))
		for i, size := range sizes {
			o.Parts = append(o.Parts, bytes.Repeat([]byte{byte(i + size)}, size))
			o.Size += size
		}
		want := bytes.Join(o.Parts, nil)
		all := o.buffers()
		o.Release()
		require.Equal(t, len(want), all.Len())
		require.EqualValues(t, len(want), total.Load())

		reader := all.Reader()
		all.Free()
		var got []byte
		for reader.Remaining() > 0 { // as a transport does
			n := min(rapid.IntRange(1, 16<<10).Draw(t, "frame"), reader.Remaining())
			parts, err := reader.Peek(n, nil)
			require.NoError(t, err)
			got = append(got, bytes.Join(parts, nil)...)
			_, err = reader.Discard(n)
			require.NoError(t, err)
		}
		require.NoError(t, reader.Close())
		require.Equal(t, want, got)
		require.Zero(t, total.Load())
	})
}

// What is joined is joined when it is read, and only while somebody holds it.
func TestPiecesAreJoinedWhenRead(t *testing.T) {
	var total atomic.Int64
	o := &outgoing{pools: &pools{}, queue: admission.SendQueue{Total: &total}}
	large := make([]byte, joinBelow)
	for range 3 * manyUpserts {
		o.Parts = append(o.Parts, make([]byte, 200))
	}
	o.Parts = append(o.Parts, large, make([]byte, 10))
	all := o.buffers()
	require.Less(t, len(all), 20)
	first, whole := all[0].(*piece), all[len(all)-2].(*piece)
	require.Nil(t, first.page)
	require.Len(t, first.ReadOnlyData(), first.Len())
	require.NotNil(t, first.page)
	copied := first.Slice(0, 10)
	first.Ref()
	first.Free()
	require.NotNil(t, first.page, "one holds it still")
	first.Free()
	require.Nil(t, first.page)
	require.Equal(t, make([]byte, 10), copied.ReadOnlyData())
	require.Same(t, &large[0], &whole.ReadOnlyData()[0], "a large part is not copied")
}

// A response of a thousand resources takes next to nothing beyond them when others have gone before
// it.
func TestPartListsAreReused(t *testing.T) {
	const parts = 1000
	body := make([]byte, 300)
	var total atomic.Int64
	var l pools
	send := func() {
		o := outgoing{pools: &l, queue: admission.SendQueue{Total: &total}}
		o.prepare(parts)
		for range parts {
			o.Parts = append(o.Parts, body)
		}
		all := o.buffers()
		for _, b := range all {
			b.ReadOnlyData()
			b.Free()
		}
	}
	send()
	require.Less(t, testing.AllocsPerRun(20, send), parts/10.0, "with the race detector pools forget at random")
}

var _ mem.Buffer = (*piece)(nil)

// A stream that keeps the lists of its last large response would keep a hundred kilobytes.
func TestAStreamKeepsNoLists(t *testing.T) {
	var l pools
	o := outgoing{pools: &l}
	o.queue.Total = new(atomic.Int64)
	for parts := range 4 {
		o.prepare(manyUpserts)
		o.Parts = append(o.Parts, make([][]byte, parts)...)
		for _, b := range o.buffers() {
			b.Free()
		}
		require.Nil(t, o.partList, "%d parts", parts)
		o.Release()
	}
}
