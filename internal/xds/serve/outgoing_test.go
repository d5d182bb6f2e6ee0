package serve

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/xds/admission"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

func TestSendQueueCountsWhatGRPCHasNotFreed(t *testing.T) {
	var total atomic.Int64
	o := outgoing{Frame: fanout.Frame{
		Parts: [][]byte{make([]byte, 3), make([]byte, admission.SendQueueLimit)}, Size: 3 + admission.SendQueueLimit,
	}}
	o.queue.Total = &total
	require.NoError(t, o.queue.Wait(t.Context()))
	b := o.buffers()
	require.EqualValues(t, 3+admission.SendQueueLimit, total.Load())
	require.True(t, o.queue.IsFull())

	waited := make(chan error)
	go func() { waited <- o.queue.Wait(t.Context()) }()
	b.Ref()
	b.Free()
	require.True(t, o.queue.IsFull(), "one holds it still")
	b.Free()
	require.NoError(t, <-waited)
	require.Zero(t, total.Load())

	b = o.buffers()
	o.queue.Close()
	require.Zero(t, total.Load(), "the stream has ended")
	b.Free()
	require.Zero(t, total.Load())
}

// Nothing waits for a client that reads. For one that does not read, no more waits than the limit
// and one response. Both are exact.
func TestUnsentBytesOfAClientAreBounded(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.Write = time.Hour })
	queued := func() int { return int(f.metrics.XDS.Queued.Load()) }
	deaf := f.delta(slowNode())
	deaf.ack(deaf.recv())
	f.eventually("it took that", func() bool { return queued() == 0 })
	const size, responses = 20 << 10, 20
	const largest = 2*size + 1<<10 // in the first of them both clusters are new
	for i := range uint64(responses) {
		f.publish(f.clusters(2+i, size, "a", string(rune('b'+i))))
		f.eventually("it is taken up, or waits", func() bool {
			c := f.server.Clients()
			return c[0].State.Generation() == 2+i || queued() > admission.SendQueueLimit
		})
		require.LessOrEqual(t, queued(), admission.SendQueueLimit+largest)
	}
	require.Greater(t, queued(), admission.SendQueueLimit, "so that the limit was reached")
	for f.server.Clients()[0].State.Generation() < 1+responses || queued() > 0 {
		deaf.ack(deaf.recv())
	}
	deaf.cancel()
	f.eventually("gone", func() bool { return f.hub.Connections(class) == 0 })
	require.Zero(t, queued())
}

// Endpoints that change all the time are many responses that no acknowledgement has to come between
// (session.maxOutstanding): what waits for a client that does not read is bounded by bytes all the
// same, however large they are. Then it gets the newest, not all.
func TestUnsentBytesOfEndpointChangesAreBounded(t *testing.T) {
	const most = 64 << 10 // bytes, for one client
	const changed, size, changes = 20, 2 << 10, 60
	f := newFixture(t, func(o *Options) { o.Limits.Write = time.Hour })
	crowd := func(generation uint64) resource.State {
		return f.crowdOf(generation, collectionsFrom, func(i int) string {
			if generation == 1 || i >= changed {
				return ""
			}
			return fmt.Sprint("-", generation) + strings.Repeat("x", size)
		})
	}
	f.publish(crowd(1))
	deaf := f.delta(nodeOf(reviewsID))
	deaf.collect(f)
	queued := func() int { return int(f.metrics.XDS.Queued.Load()) }
	taken := func() uint64 { return f.server.Clients()[0].State.Generation() }
	largest, reached := 0, false
	for generation := uint64(2); generation <= changes; generation++ {
		f.publish(crowd(generation))
		f.eventually("it is taken up, or waits", func() bool {
			return taken() == generation || queued() > admission.SendQueueLimit
		})
		largest = max(largest, queued())
		reached = reached || taken() < generation
	}
	require.True(t, reached, "so that the limit was reached")
	require.Greater(t, largest, admission.SendQueueLimit)
	require.LessOrEqual(t, largest, most)

	responses := 0
	for newest := false; !newest; responses++ {
		r := deaf.recv()
		require.Equal(t, resource.LbEndpoint.URL(), r.GetTypeUrl())
		require.Len(t, r.GetResources(), changed)
		e := &endpointv3.LbEndpoint{}
		require.NoError(t, r.GetResources()[0].GetResource().UnmarshalTo(e))
		newest = strings.HasSuffix(strings.TrimRight(e.GetEndpoint().GetHostname(), "x"), fmt.Sprint("-", changes))
		deaf.ack(r)
	}
	require.Less(t, responses, changes/2)
	f.eventually("nothing waits", func() bool { return queued() == 0 })
}
