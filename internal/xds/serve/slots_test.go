package serve

import (
	"context"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Requests and acknowledgements of nothing are counted, answers are not.
func TestClientThatAsksForTooMuchWaits(t *testing.T) {
	for name, needless := range map[string]*discoveryv3.DeltaDiscoveryRequest{
		"subscriptions":         {TypeUrl: resource.Cluster.URL(), ResourceNamesSubscribe: []string{"a"}},
		"answers to nothing":    {TypeUrl: resource.Cluster.URL(), ResponseNonce: "nonsense"},
		"requests without type": {TypeUrl: "no.such.Type"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			d := f.delta(nodeOf(reviewsID))
			d.ack(d.recv())
			go func() {
				for {
					if _, err := d.stream.Recv(); err != nil {
						return
					}
				}
			}()
			go func() {
				for d.stream.Send(needless) == nil { // until it is throttled by flow control, and then ended
				}
			}()
			f.eventually("it is throttled", func() bool { return f.value("lateen_xds_held_requests_total") > 0 })
			f.logged("asks for more than it may")
			d.cancel()
			f.eventually("it ends while it is throttled", func() bool { return f.hub.Connections(class) == 0 })
		})
	}
}

// A stream that waits for its client, or has ended, holds no slot.
func TestStreamsThatWaitForTheirClientsHoldNoSlots(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.Write = time.Hour })
	slots := cap(f.server.requestSlots)
	var stuck []deltaStream
	for range 2 * slots {
		d := f.delta(slowNode())
		d.ack(d.recv())
		stuck = append(stuck, d)
	}
	f.stuff()
	again := &discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: resource.Cluster.URL(), ResourceNamesSubscribe: []string{"x", "y", "z"},
	}
	for _, d := range stuck {
		d.send(again)
	}
	reader := f.delta(nodeOf("sidecar~127.0.0.3~b.default~default.svc.cluster.local"))
	require.NotEmpty(t, reader.recv().GetResources())
	f.eventually("nobody holds a slot", func() bool { return len(f.server.requestSlots) == 0 })
	for _, d := range append(stuck, reader) {
		d.cancel()
	}
	f.eventually("gone", func() bool { return f.hub.Connections(class) == 0 })
	require.Empty(t, f.server.requestSlots)
}

func TestStreamMayEndWhileItWaitsForASlot(t *testing.T) {
	f := newFixture(t)
	for range cap(f.server.requestSlots) {
		f.server.requestSlots <- struct{}{}
	}
	d := f.delta(nodeOf(reviewsID))
	d.cancel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, (&stream{server: f.server}).acquireSlot(ctx))
	for range cap(f.server.requestSlots) {
		<-f.server.requestSlots
	}
}
