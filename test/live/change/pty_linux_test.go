package change

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const columns = 80

// onTerminal runs a command of lateen as in a window of 80 columns, and returns what appears in it.
func onTerminal(t *testing.T, env []string, args ...string) string {
	t.Helper()
	window, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { _ = window.Close() }()
	fd := int(window.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)

	cmd := exec.Command(binary, args...)
	cmd.Env = environ(append([]string{"TERM=xterm", "NO_COLOR="}, env...)...)
	cmd.Stdout, cmd.Stderr = terminal, terminal
	require.NoError(t, cmd.Start())
	require.NoError(t, terminal.Close())
	shown := newScreen()
	shown.read(window) // until nobody has the terminal open any more
	require.NoError(t, cmd.Wait())
	return shown.String()
}

// TestStatusOnATerminalIsColouredAndUnbroken looks at the status as on a terminal: in colours
// unless they are not wanted, and no line is broken.
func TestStatusOnATerminalIsColouredAndUnbroken(t *testing.T) {
	m := start(t, bookinfo(t))
	m.requireSettled()
	coloured := onTerminal(t, nil, "status", "--monitoring-address", m.monitoring)
	require.Contains(t, coloured, "\x1b[32mSYNCED\x1b[0m")
	plain := onTerminal(t, []string{"NO_COLOR=1"}, "status", "--monitoring-address", m.monitoring)
	require.NotContains(t, plain, "\x1b")
	require.Equal(t, 7, strings.Count(plain, "SYNCED"), plain)
	for line := range strings.SplitSeq(plain, "\n") {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\r")), columns, line)
	}
}
