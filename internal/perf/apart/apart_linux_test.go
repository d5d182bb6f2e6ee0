package apart

import (
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

// childEnv tells the test's binary that it is the process.
const childEnv = "LATEEN_TEST_APART"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "serve":
		if Serve(os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
	case "fail":
		_, _ = os.Stderr.WriteString("no room")
		os.Exit(3)
	default:
		leak.Main(m)
	}
}

func begin(t *testing.T, as string, targets ...string) (*Sidecars, error) {
	t.Helper()
	t.Setenv(childEnv, as)
	who := []sidecar.Identity{
		{Namespace: "a", Pod: "one", Address: netip.MustParseAddr("127.0.0.1")}, {Namespace: "a", Pod: "two",
			Address: netip.MustParseAddr("127.0.0.2")},
	}
	return Start([]string{os.Args[0]}, sidecar.Options{Targets: targets, Loops: 1}, sidecar.Faults{StopsReading: true},
		who)
}

func TestSidecarsConnectFromAProcessThatGivesWay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	s, err := begin(t, "serve", l.Addr().String())
	require.NoError(t, err)
	var conns []net.Conn
	for range 2 {
		conn, err := l.Accept()
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	require.Zero(t, s.Synced(), "nobody has answered them")
	priority, err := unix.Getpriority(unix.PRIO_PROCESS, s.cmd.Process.Pid)
	require.NoError(t, err)
	require.Equal(t, 20-lowestPriority, priority, "as the system call has it")
	require.NoError(t, s.Stop())
	for _, conn := range conns {
		_, err := io.Copy(io.Discard, conn)
		require.NoError(t, err, "it has ended")
		require.NoError(t, conn.Close())
	}
}

func TestWhatGoesWrongIsTold(t *testing.T) {
	_, err := begin(t, "serve")
	require.Error(t, err, "no target")
	_, err = begin(t, "fail", "127.0.0.1:1")
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "no room")
	_, err = Start([]string{"/no/such/command"}, sidecar.Options{}, sidecar.Faults{}, nil)
	require.ErrorContains(t, err, "/no/such/command")
	require.ErrorContains(t, Serve(strings.NewReader("sidecars"), io.Discard), "what lateen perf tells")
	require.NoError(t, Serve(strings.NewReader(`{"options": {"Targets": ["127.0.0.1:1"]}}`), io.Discard),
		"who tells has gone")
}
