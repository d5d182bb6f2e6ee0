package heap

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

var kept []byte

func TestReachableMemoryIsInUse(t *testing.T) {
	const size = 8 << 20
	before := InUse().Heap
	kept = make([]byte, size)
	require.InDelta(t, size, InUse().Heap-before, 1<<20)
	kept = nil
	require.InDelta(t, 0, InUse().Heap-before, 1<<20)
}

// TestMemoryThatCleanupsFreeIsNotInUse: a chain of which each link goes by the cleanup of the one
// before.
func TestMemoryThatCleanupsFreeIsNotInUse(t *testing.T) {
	type link struct{ bytes []byte }
	before := InUse().Heap
	head := &link{make([]byte, 4<<20)}
	for range 3 {
		next := head
		head = &link{make([]byte, 4<<20)}
		runtime.AddCleanup(head, func(*link) {}, next) // which holds the next until it has run
	}
	require.InDelta(t, 16<<20, InUse().Heap-before, 1<<20)
	runtime.KeepAlive(head)
	require.InDelta(t, 0, InUse().Heap-before, 1<<20)
}
