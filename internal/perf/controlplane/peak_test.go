package controlplane

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/port"
)

// TestAChildsPeakIsItsOwn holds that of a child which has ended against memory of this process, in
// which the child begins.
func TestAChildsPeakIsItsOwn(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	target, err := port.Reserve()
	require.NoError(t, err)
	defer target.Release()
	ballast := make([]byte, 512<<20)
	for i := 0; i < len(ballast); i += os.Getpagesize() {
		ballast[i] = 1
	}

	c := NewChild([]string{self, asServer, target.Address}, target.Address, nil)
	require.NoError(t, c.begin(t.Context()))
	first, err := c.Usage(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.endForRestart(t.Context(), nil))
	require.NoError(t, c.begin(t.Context()))
	both, err := c.Usage(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.end(t.Context()))
	runtime.KeepAlive(ballast)
	require.GreaterOrEqual(t, both.Peak, first.Peak, "also of one that has ended")
	require.Less(t, both.Peak, int64(len(ballast))/2)
}
