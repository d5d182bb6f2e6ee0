package admission

import (
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// busyListener is a listener that always has a connection to accept.
type busyListener struct{ net.Listener }

func (busyListener) Accept() (net.Conn, error) {
	conn, other := net.Pipe()
	return conn, other.Close()
}

func TestListenerAcceptsAtARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := newListener(busyListener{}, newPushPriority(&fakePushes{})), time.Now()
		rate := acceptsPerCPU * runtime.GOMAXPROCS(0)
		for range rate {
			conn, err := l.Accept()
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
		require.Equal(t, time.Second-burstTime, time.Since(began).Round(time.Millisecond))
	})
}
