package serve

import (
	"context"
	"net"
	"runtime"
	"time"
)

// arrivals is a listener that takes connections at a pace, so that a thousand that come at once, each with its goroutines and TLS's
// handshake, do not stand between a push and its turn. One that is not taken yet is connected as far as its client can tell: the kernel keeps
// it, 4,096 of them by default (net.core.somaxconn), which wait for two seconds where there are two CPUs.
type arrivals struct {
	net.Listener
	pace *admission
}

// arrivalRate is how many connections are taken in a second for each CPU: no fewer than streams are admitted.
const arrivalRate = 1000

func newArrivals(l net.Listener) *arrivals {
	return &arrivals{l, newAdmission(float64(arrivalRate*runtime.GOMAXPROCS(0)), time.Now(), nil)}
}

// Accept implements net.Listener.
func (a *arrivals) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		wait, _ := a.pace.take(time.Now()) // one waits at a time, and so never for long
		pause(context.Background(), wait)
	}
	return conn, err
}
