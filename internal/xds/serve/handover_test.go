package serve

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// leaveConnection waits until the client opens no more streams on the connection that it has.
func (f *fixture) leaveConnection() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 3*time.Minute)
	defer cancel()
	// A call may begin before the state says Ready.
	f.eventually("connected", func() bool { return f.conn.GetState() != connectivity.Connecting })
	require.True(f.t, f.conn.WaitForStateChange(ctx, connectivity.Ready))
}

// TestConnectionOfAgeServesOn: a client is told that its connection has come of age. Its stream
// goes on for the grace, and a new one takes another connection.
func TestConnectionOfAgeServesOn(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		// old has to begin on its connection before that comes of age
		o.Limits.ConnectionAge, o.Limits.connectionGrace = 2*time.Second, time.Hour
	})
	old := f.delta(nodeOf(reviewsID))
	old.ack(old.recv())
	f.leaveConnection()
	f.publish(f.clusters(2, 1, "a", "b", "c"))
	require.Equal(t, "c", old.recv().GetResources()[0].GetName())

	young := f.delta(nodeOf(reviewsID))
	young.ack(young.recv())
	require.Len(t, f.server.conns.list(), 2)
	f.publish(f.clusters(3, 1, "a", "b", "c", "d"))
	require.Equal(t, "d", young.recv().GetResources()[0].GetName())
}

// TestConnectionOfAgeEnds: after its grace a connection ends, as Unavailable, and the client is
// served on the next one.
func TestConnectionOfAgeEnds(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Limits.ConnectionAge, o.Limits.connectionGrace = 100*time.Millisecond, time.Millisecond
	})
	for served := 0; served < 3; {
		d := f.delta(nodeOf(reviewsID))
		r, err := d.stream.Recv()
		if status.Code(err) == codes.Unavailable {
			continue // on a busy machine a connection may end before it has served
		}
		require.NoError(t, err)
		d.ack(r)
		d.fails(codes.Unavailable, "received prior goaway")
		served++
	}
	f.eventually("only the last connection is left", func() bool { return len(f.server.conns.list()) <= 1 })
}

// TestStopTellsClientsFirst: a client knows that its connection will end before it does, and only
// then it ends.
func TestStopTellsClientsFirst(t *testing.T) {
	for _, alone := range []bool{false, true} {
		f := newFixture(t, func(o *Options) { o.Alone, o.Limits.notice = alone, time.Second })
		var streams []deltaStream
		for range 3 {
			d := f.delta(nodeOf(reviewsID))
			d.ack(d.recv())
			streams = append(streams, d)
		}
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			f.server.Stop(t.Context())
		}()
		for _, d := range streams {
			d.fails(codes.Unavailable, "received prior goaway")
		}
		<-stopped
		require.True(t, f.server.conns.isEmpty())
	}
}

// TestOnlyOthersAreHandedOverAtAPace: without another server, connections end at once.
func TestOnlyOthersAreHandedOverAtAPace(t *testing.T) {
	const conns = 100
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, alone := range []bool{false, true} {
		s, closed := &Server{options: Options{Alone: alone}}, 0
		for range conns {
			s.conns.add(&countedConn{closed: &closed})
		}
		s.endConnections(ctx)
		require.Equal(t, alone, closed == conns, "%d of %d are closed when there is no time for a pace", closed, conns)
	}
}

// countedConn counts that it is closed.
type countedConn struct {
	net.Conn
	closed *int
}

func (c *countedConn) Close() error {
	*c.closed++
	return nil
}

// TestStopEndsWhatIsLeft: when there is no time for a pace, all that are left end at once.
func TestStopEndsWhatIsLeft(t *testing.T) {
	f := newFixture(t)
	d := f.delta(nodeOf(reviewsID))
	d.ack(d.recv())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.server.Stop(ctx)
	d.fails(codes.Unavailable, "")
	f.eventually("ended", f.server.conns.isEmpty)
}
