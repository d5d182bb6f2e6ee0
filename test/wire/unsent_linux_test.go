package wire

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// unsent is how many bytes the kernel has taken for a connection and could not send yet.
func unsent(t *testing.T, c net.Conn) (n int) {
	raw, err := c.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	var failed error
	require.NoError(t, raw.Control(func(descriptor uintptr) {
		n, failed = unix.IoctlGetInt(int(descriptor), unix.SIOCOUTQNSD)
	}))
	require.NoError(t, failed)
	return n
}
