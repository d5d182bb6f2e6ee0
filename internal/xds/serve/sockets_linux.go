package serve

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsentLimit is from how many bytes on that the kernel could not send yet it takes no more for a connection. Without, it would take
// megabytes for each client that does not read (net.ipv4.tcp_wmem), which are the process's memory as far as its cgroup is concerned.
// What is under way and not acknowledged does not count, so a long way to the client is used as before. The kernel fills the segment
// that it has begun: so there may be 64 KiB more.
const unsentLimit = 16 << 10

// frugal is a listener whose connections have the limit. A connection without a socket, or whose socket does not know the
// option, is as it was.
type frugal struct{ net.Listener }

// Accept implements net.Listener.
func (f frugal) Accept() (net.Conn, error) {
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
