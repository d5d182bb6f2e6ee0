package callers

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain makes this binary a process that connects to where it is told, and waits.
func TestMain(m *testing.M) {
	if at := os.Getenv("LATEEN_TEST_CONNECT"); at != "" {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			os.Exit(1)
		}
		_, _ = conn.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// accepted is a connection with the addresses of both ends.
type accepted struct {
	net.Conn
	from, to netip.AddrPort
}

func listen(t *testing.T, at string) (net.Listener, func() accepted) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, func() accepted {
		conn, err := l.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return accepted{
			conn,
			netip.MustParseAddrPort(conn.RemoteAddr().String()), netip.MustParseAddrPort(conn.LocalAddr().String()),
		}
	}
}

func TestConnectionsOfTheProxyAreRecognized(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		l, accept := listen(t, at)
		_, port, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		to := l.Addr().String()
		if at == ":0" {
			to = "127.0.0.1:" + port // to a listener of both families
		}
		own, err := net.Dial("tcp", to)
		require.NoError(t, err)
		ours := accept()

		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "LATEEN_TEST_CONNECT="+to)
		require.NoError(t, child.Start())
		theirs := accept()
		envoy := Guard{PID: func() int { return child.Process.Pid }}
		require.ErrorIs(t, envoy.Check(theirs.from, theirs.to), errEnvoy, at)
		require.NoError(t, envoy.Check(ours.from, ours.to), at)
		none := Guard{PID: func() int { return 0 }}
		require.NoError(t, none.Check(theirs.from, theirs.to))

		require.NoError(t, theirs.Close())
		require.NoError(t, child.Wait())
		require.ErrorIs(t, envoy.Check(theirs.from, theirs.to), errUnknown, "a connection that nobody has")
		require.NoError(t, own.Close())
		_, err = bufio.NewReader(ours).ReadByte()
		require.Error(t, err)
		require.ErrorIs(t, envoy.Check(ours.from, ours.to), errUnknown, "one that its process has closed")
		require.ErrorIs(t, envoy.Check(netip.MustParseAddrPort("192.0.2.1:9"), ours.to), errUnknown)
	}
}

func TestLinesWithoutAProcessAreNotBelieved(t *testing.T) {
	from, to := netip.MustParseAddrPort("127.0.0.1:40000"), netip.MustParseAddrPort("127.0.0.1:15000")
	const line = "0: 0100007F:9C40 0100007F:3A98 01 00000000:00000000 00:00000000 00000000  1337        0 "
	s, ok := parse([]byte(line+"1234 1 0"), from, to)
	require.True(t, ok)
	require.Equal(t, socket{uid: 1337, inode: 1234}, s)
	for _, bad := range []string{line + "0 1 0", line + "x 1", line, "", "0: 0100007F 0100007F:3A98 1 2 3 4 5 6 7"} {
		_, ok := parse([]byte(bad), from, to)
		require.False(t, ok, bad)
	}
	_, ok = parse([]byte(line+"1234 1 0"), to, from)
	require.False(t, ok, "the other end")
}
