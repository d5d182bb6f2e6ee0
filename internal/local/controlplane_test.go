package local

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestControlPlaneIsKeptRunning kills the process that the control plane is: it is told, and
// started again with files of its own.
func TestControlPlaneIsKeptRunning(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // nobody answers: it runs, and is not ready
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	starts := 0
	m := run(t, Options{ControlPlane: &ControlPlaneProcess{
		Argv:    []string{"sh", "-c", "cat <&3; echo time=now level=INFO msg=mended; exec sleep 1000"},
		Environ: os.Environ(),
		Files: func() ([]*os.File, error) {
			starts++
			r, w, err := os.Pipe()
			require.NoError(t, err)
			_, err = w.WriteString("inherited\n")
			require.NoError(t, err)
			return []*os.File{r}, w.Close()
		},
		Monitoring: netip.MustParseAddrPort(l.Addr().String()),
	}})
	runs := func(restarts int) func(*Snapshot) bool {
		return func(s *Snapshot) bool {
			if s.ControlPlane == nil || s.ControlPlane.PID == 0 || s.ControlPlane.Restarts != restarts {
				return false
			}
			log, err := os.ReadFile(s.ControlPlane.Log)
			return err == nil && strings.Count(string(log), "inherited") == restarts+1
		}
	}
	require.Eventually(t, func() bool { return runs(0)(m.Snapshot()) }, patience, fastPeriod)
	require.NoError(t, syscall.Kill(m.Snapshot().ControlPlane.PID, syscall.SIGKILL))
	n := m.awaitNotice(t, "crashed: signal: killed; starts again in")
	require.Equal(t, "control-plane", n.Pod)
	require.True(t, n.Bad)
	require.Equal(t, []string{"inherited"}, n.Tail, "and no record of another thing")
	require.Eventually(t, func() bool { return runs(1)(m.Snapshot()) }, patience, fastPeriod)
	pid := m.Snapshot().ControlPlane.PID
	m.stop()
	require.Eventually(t, func() bool { return gone(pid) }, patience, fastPeriod)
	require.Equal(t, 2, starts)
}
