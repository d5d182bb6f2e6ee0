package serve

import (
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// crowded is a listener at which there is always somebody.
type crowded struct{ net.Listener }

func (crowded) Accept() (net.Conn, error) {
	conn, other := net.Pipe()
	return conn, other.Close()
}

func TestConnectionsAreTakenAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, began := newArrivals(crowded{}, newCourtesy(&somePushes{})), time.Now()
		rate := arrivalRate * runtime.GOMAXPROCS(0)
		for range rate {
			conn, err := a.Accept()
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
		require.Equal(t, time.Second-admissionBurst, time.Since(began).Round(time.Millisecond))
	})
}
