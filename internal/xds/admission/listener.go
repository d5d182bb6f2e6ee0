package admission

import (
	"context"
	"net"
	"runtime"
	"time"
)

// listener limits how many connections are accepted per second. A thousand connections accepted at
// once are thousands of runnable goroutines, each with a TLS handshake, and a push would wait
// behind all of them.
//
// A connection that is not accepted yet waits in the kernel's queue, which holds 4,096 by default
// (net.core.somaxconn); its client sees it as connected. On two CPUs a full queue is accepted
// within two seconds, or ten while pushes go on.
type listener struct {
	net.Listener
	bucket   *tokenBucket
	priority *pushPriority
}

// acceptsPerCPU is the number of connections accepted per second for each CPU. It is above the
// default of StreamLimiter, so that accepting does not limit streams.
const acceptsPerCPU = 1000

func newListener(l net.Listener, p *pushPriority) *listener {
	return &listener{l, newTokenBucket(float64(acceptsPerCPU*runtime.GOMAXPROCS(0)), time.Now()), p}
}

// Accept implements net.Listener. It waits after the connection was taken, one connection at a
// time, so the wait is never longer than one token takes.
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		now := time.Now()
		wait, _ := l.bucket.reserve(now)
		Pause(context.Background(), max(wait, l.priority.delayAccept(now)))
	}
	return conn, err
}
