package port

import (
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Reservation is a reserved port of 127.0.0.1.
type Reservation struct {
	// Address is "127.0.0.1:41234".
	Address string
	socket  int
}

// Reserve reserves a free port. It binds a socket that never listens. So the kernel gives the port
// only to a process that asks for its number. Such a process may listen, because the socket sets
// SO_REUSEADDR, as Go's listeners do.
func Reserve() (*Reservation, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	h := &Reservation{socket: socket}
	if err = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err == nil {
		err = unix.Bind(socket, &unix.SockaddrInet4{Addr: loopback})
	}
	if err == nil {
		var at unix.Sockaddr
		if at, err = unix.Getsockname(socket); err == nil {
			h.Address = netip.AddrPortFrom(netip.AddrFrom4(loopback), uint16(at.(*unix.SockaddrInet4).Port)).String()
		}
	}
	if err != nil {
		h.Release()
		return nil, os.NewSyscallError("bind", err)
	}
	return h, nil
}

var loopback = [4]byte{127, 0, 0, 1}

// Release gives the port up. It does nothing on a second call and on nil.
func (h *Reservation) Release() {
	if h != nil && h.socket >= 0 {
		_ = unix.Close(h.socket)
		h.socket = -1
	}
}
