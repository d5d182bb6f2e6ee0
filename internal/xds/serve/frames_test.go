package serve

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFramePoolReturnsBuffersOfTheLength(t *testing.T) {
	var f framePool
	for _, length := range []int{0, 1, smallFrame, smallFrame + 1, largeFrame, largeFrame + 1} {
		for range 4 {
			b := f.Get(length)
			require.Len(t, *b, length)
			*b = (*b)[:length/2] // as of a frame that is padded
			f.Put(b)
		}
	}
}
