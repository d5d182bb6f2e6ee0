package serve

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/lateen-mesh/lateen/internal/xds/admission"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// A stream that connects while clients do not read is admitted all the same. Streams that end leave
// no bytes in flight.
func TestClientsThatDoNotReadDelayNobody(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.Write, o.Limits.firstBytes = time.Hour, 1 })
	f.publish(f.clusters(2, 20<<10, "a", "b"))
	var all []deltaStream
	for range 3 * runtime.GOMAXPROCS(0) {
		d := f.delta(slowNode())
		all = append(all, d)
	}
	reader := f.delta(nodeOf("sidecar~127.0.0.3~b.default~default.svc.cluster.local"))
	reader.ack(reader.recv())
	for _, d := range append(all, reader) {
		d.cancel()
	}
	f.eventually("gone", func() bool { return f.hub.Connections(class) == 0 })
	f.eventually("nothing is left", func() bool {
		streams, bytes := f.server.gate.Load()
		return streams == 0 && bytes == 0
	})
}

// A stream that ends while it waits for a place in the queue takes none.
func TestFirstRequestIsReadOnlyWithAPlaceInTheQueue(t *testing.T) {
	f := newFixture(t)
	queue := f.server.gate.Queue()
	for range cap(queue) {
		require.NoError(t, queue.Acquire(t.Context()))
	}
	waiting := func(n float64) func() bool {
		return func() bool { return f.value("lateen_xds_waiting_streams") == n }
	}
	goes, stays := f.delta(nodeOf(reviewsID)), f.delta(nodeOf(reviewsID))
	f.eventually("waiting", waiting(2))
	goes.cancel()
	f.eventually("gone", waiting(1))
	require.Zero(t, f.value("pilot_xds_recv_max"), "nothing was read")
	queue.Release()
	stays.ack(stays.recv())
	f.eventually("admitted, and out of the queue", func() bool { return len(queue) == cap(queue)-1 })
	for range cap(queue) - 1 {
		queue.Release()
	}
}

// However many streams come at once, no more of them are in their first exchange than there are
// slots, and no more first requests are held than the queue has places. All are served in the end.
func TestStormHoldsNoMoreThanTheQueue(t *testing.T) {
	const places, storm = 8, 40
	f := newFixture(t)
	gate, queue, slots := f.server.gate, f.server.gate.Queue(), cap(admission.NewSemaphore())
	for range cap(queue) - places {
		require.NoError(t, queue.Acquire(t.Context()))
	}
	for range slots { // as streams do whose clients have not answered yet
		require.NoError(t, gate.Enter(t.Context()))
	}
	all := make([]deltaStream, storm)
	for i := range all {
		all[i] = f.delta(nodeOf(reviewsID))
	}
	f.eventually("all wait", func() bool { return f.value("lateen_xds_waiting_streams") == storm })
	f.eventually("the queue is full", func() bool { return len(queue) == cap(queue) })
	require.Zero(t, f.hub.Connections(class), "nobody is admitted")
	streams, bytes := gate.Load()
	require.Equal(t, slots, streams)
	require.Zero(t, bytes)

	for range slots {
		gate.Leave()
	}
	for _, d := range all {
		d.ack(d.recv())
	}
	f.eventually("nothing is held", func() bool {
		streams, bytes := gate.Load()
		return streams+bytes == 0 && len(queue) == cap(queue)-places
	})
	require.Zero(t, f.value("lateen_xds_waiting_streams"))
	require.Equal(t, storm, f.hub.Connections(class))
}

// trusting authenticates everybody, and counts them.
type trusting struct{ passed atomic.Int64 }

func (b *trusting) Screen(context.Context, metadata.MD) error { return nil }

func (b *trusting) Authenticate(context.Context, metadata.MD) (Identity, error) {
	b.passed.Add(1)
	return Identity{}, nil
}

// Streams without a request lose their places in the queue.
func TestClientsThatSendNoRequestDelayNobody(t *testing.T) {
	var auth trusting
	f := newFixture(t, func(o *Options) { o.Limits.FirstRequest, o.Authenticator = time.Hour, &auth })
	queue := f.server.gate.Queue()
	for range 2 * cap(queue) {
		_, err := f.client.DeltaAggregatedResources(t.Context())
		require.NoError(t, err)
	}
	f.eventually("there", func() bool { return int(auth.passed.Load()) == 2*cap(queue) })
	f.eventually("neither before the queue nor in it", func() bool {
		return f.value("lateen_xds_waiting_streams") == 0 && len(queue) == 0
	})
	d := f.delta(nodeOf(reviewsID))
	d.ack(d.recv())
	require.InDelta(t, 1, f.value("lateen_xds_admission_wait_seconds"), 0, "of those that are admitted")
}

func TestTypeSetTellsTheFirstRequestOfEachType(t *testing.T) {
	var s typeSet
	require.True(t, s.add(resource.Cluster))
	require.True(t, s.add(resource.Secret))
	require.True(t, s.add(resource.NumTypes))
	require.False(t, s.add(resource.Cluster))
	require.False(t, s.add(resource.NumTypes))
	require.True(t, s.add(resource.Listener))
}
