package serve

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsentLimit is the number of unsent bytes from which on the kernel takes no more for a
// connection. Without it the kernel would take megabytes for each client that does not read
// (net.ipv4.tcp_wmem), which count as the process's memory for its cgroup. Bytes in flight do not
// count, so a long way to the client is used as before. The kernel fills the segment that it has
// begun, so there may be 64 KiB more.
const unsentLimit = 16 << 10

// unsentLimitListener is a listener whose connections have the limit. A connection without a
// socket, or whose socket does not know the option, stays without.
type unsentLimitListener struct{ net.Listener }

// Accept implements net.Listener.
func (f unsentLimitListener) Accept() (net.Conn, error) {
	conn, err := f.Listener.Accept()
	if socket, ok := conn.(syscall.Conn); ok && err == nil {
		if raw, err := socket.SyscallConn(); err == nil {
			_ = raw.Control(func(descriptor uintptr) {
				_ = unix.SetsockoptInt(int(descriptor), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentLimit)
			})
		}
	}
	return conn, err
}
