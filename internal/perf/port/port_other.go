//go:build !linux

package port

import (
	"math/rand/v2"
	"net"
	"strconv"
)

// Reservation is a port of 127.0.0.1 that was free.
type Reservation struct {
	// Address is "127.0.0.1:21234".
	Address string
}

// The tried ports lie below the ephemeral range. A port of that range may be in use as the source
// of a connection when a process begins to listen.
const firstPort, lastPort = 20000, 29000

// Reserve returns a port that is free now. This system cannot reserve it: another process may
// take it first.
func Reserve() (h *Reservation, err error) {
	for range 100 {
		var l net.Listener
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort)))
		if l, err = net.Listen("tcp", address); err == nil {
			return &Reservation{Address: address}, l.Close()
		}
	}
	return nil, err
}

// Release does nothing.
func (*Reservation) Release() {}
