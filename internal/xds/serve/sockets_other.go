//go:build !linux

package serve

import "net"

// unsentLimitListener returns connections unchanged: only Linux has the limit.
type unsentLimitListener struct{ net.Listener }
