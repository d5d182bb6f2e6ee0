//go:build !linux

package serve

import "net"

// frugal is the listener as it is: the kernel's own limit holds.
type frugal struct{ net.Listener }
