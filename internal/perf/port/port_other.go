//go:build !linux

package port

import (
	"math/rand/v2"
	"net"
	"strconv"
)

// Held is a port of 127.0.0.1.
type Held struct {
	// Address is "127.0.0.1:21234".
	Address string
}

// Ports that are tried lie below those that systems give to connections, one of which may be in use when a process begins to listen.
const firstPort, lastPort = 20000, 29000

// Hold finds a port that is free now. Here none can be kept: another process may come first.
func Hold() (h *Held, err error) {
	for range 100 {
		var l net.Listener
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort)))
		if l, err = net.Listen("tcp", address); err == nil {
			return &Held{Address: address}, l.Close()
		}
	}
	return nil, err
}

// Release does nothing.
func (*Held) Release() {}
