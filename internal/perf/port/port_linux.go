package port

import (
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Held is a port of 127.0.0.1 that is kept.
type Held struct {
	// Address is "127.0.0.1:41234".
	Address string
	socket  int
}

// Hold keeps a port that is free. It binds a socket to it that never listens: the kernel gives the port to nobody then who does not ask
// for it by number, and since the socket lets its address be used again, as the listeners of Go do, those who ask may listen.
func Hold() (*Held, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	h := &Held{socket: socket}
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

// Release gives the port up. A second call does nothing, and neither does one of nil.
func (h *Held) Release() {
	if h != nil && h.socket >= 0 {
		_ = unix.Close(h.socket)
		h.socket = -1
	}
}
