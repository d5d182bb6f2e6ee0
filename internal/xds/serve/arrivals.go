package serve

import (
	"context"
	"net"
	"runtime"
	"time"
)

// arrivals is a listener that takes connections at a pace, so that a thousand that come at once, each with its goroutines and TLS's
// handshake, do not stand between a push and its turn. One that is not taken yet is connected as far as its client can tell: the kernel keeps
// it, 4,096 of them by default (net.core.somaxconn), which wait for two seconds where there are two CPUs, and for ten while pushes go on.
type arrivals struct {
	net.Listener
	pace     *admission
	courtesy *courtesy
}

// arrivalRate is how many connections are taken in a second for each CPU: no fewer than streams are admitted.
const arrivalRate = 1000

func newArrivals(l net.Listener, c *courtesy) *arrivals {
	return &arrivals{l, newAdmission(float64(arrivalRate*runtime.GOMAXPROCS(0)), time.Now(), nil), c}
}

// Accept implements net.Listener.
func (a *arrivals) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		now := time.Now()
		wait, _ := a.pace.take(now) // one waits at a time, and so never for long
		pause(context.Background(), max(wait, a.courtesy.arrival(now)))
	}
	return conn, err
}
