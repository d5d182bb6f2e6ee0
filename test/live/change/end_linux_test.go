package change

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEveryWayToEndLeavesStateForTheNextStart ends a mesh in each way that it can end, and starts
// another on the same state right after.
func TestEveryWayToEndLeavesStateForTheNextStart(t *testing.T) {
	bystander := exec.Command("sleep", "1000")
	require.NoError(t, bystander.Start())
	t.Cleanup(func() {
		require.NoError(t, bystander.Process.Kill(), "it was not ended by anybody else")
		_ = bystander.Wait() // killed
	})
	dir := bookinfo(t)
	for _, c := range []struct {
		how    string
		signal syscall.Signal
		exit   int
	}{
		{"Ctrl-C", syscall.SIGINT, 0}, {"terminated", syscall.SIGTERM, 0}, {"killed", syscall.SIGKILL, -1},
	} {
		t.Run(c.how, func(t *testing.T) {
			m := start(t, dir)
			started := m.children()
			require.Len(t, started, 13, "six apps and seven Envoys")
			began := time.Now()
			require.Equal(t, c.exit, m.stop(c.signal), m.screen)
			t.Logf("it ended after %v", time.Since(began).Round(time.Millisecond))
			requireEnded(t, started)
		})
	}
	t.Run("Ctrl-C while it starts", func(t *testing.T) {
		m := launch(t, dir)
		require.Eventually(t, func() bool { return len(m.children()) > 3 }, patience, time.Millisecond)
		started := m.children()
		require.Zero(t, m.stop(syscall.SIGINT), m.screen)
		requireEnded(t, started)
	})
	t.Run("twice at once", func(t *testing.T) {
		first := start(t, dir)
		second := launch(t, dir)
		<-second.done
		require.Equal(t, 1, second.exit)
		require.Contains(t, second.screen.String(), "in use by another lateen")
		versions, _ := first.reviewers(5, nil)
		require.NotContains(t, versions, "status 0")
	})
}

// incarnation is a process by what nobody else will have: a process id is given again some day,
// with another start time.
type incarnation struct{ pid, parent, state, started string }

// incarnationOf is the process that has an id now, if there is one.
func incarnationOf(pid string) (incarnation, bool) {
	content, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return incarnation{}, false
	}
	// The second field is the name, in parentheses; after it come state, parent and, as field 22,
	// the start time (proc(5)).
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 20 {
		return incarnation{}, false
	}
	return incarnation{pid: pid, state: fields[0], parent: fields[1], started: fields[19]}, true
}

// children are the processes that a mesh has started and not yet reaped.
func (m *mesh) children() (all []incarnation) {
	m.t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(m.t, err)
	for _, path := range stats {
		p, ok := incarnationOf(filepath.Base(filepath.Dir(path)))
		if ok && p.parent == strconv.Itoa(m.process.Pid) {
			all = append(all, p)
		}
	}
	return all
}

// commandOf is the command line of a process.
func commandOf(pid string) string {
	content, err := os.ReadFile("/proc/" + pid + "/cmdline")
	if err != nil {
		return "" // it has ended meanwhile
	}
	return strings.ReplaceAll(string(content), "\x00", " ")
}

// runs tells whether it is the same process still; one that has ended and that nobody has reaped
// does not run.
func (i incarnation) runs() bool {
	now, ok := incarnationOf(i.pid)
	return ok && now.started == i.started && now.state != "Z"
}

// requireEnded waits until none of the processes is left: after a SIGKILL it is the kernel that
// ends them.
func requireEnded(t *testing.T, processes []incarnation) {
	t.Helper()
	require.NotEmpty(t, processes)
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(processes, incarnation.runs)
	}, patience, 10*time.Millisecond)
}
