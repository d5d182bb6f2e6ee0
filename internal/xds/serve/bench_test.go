package serve

import (
	"fmt"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// BenchmarkFanOut is one change of one cluster to 1,000 delta streams, until the last ACK. Client and server share the
// process, and all streams one connection: quote ratios of one run only.
func BenchmarkFanOut(b *testing.B) {
	const streams = 1000
	f := newFixture(b)
	for i := range streams {
		d := f.delta(nodeOf(fmt.Sprintf("sidecar~127.0.0.2~p%d.default~default.svc.cluster.local", i)))
		d.ack(d.recv())
		go func() {
			for {
				r, err := d.stream.Recv()
				if err != nil {
					return
				}
				_ = d.stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()})
			}
		}()
	}
	b.ReportAllocs()
	n := uint64(1)
	for b.Loop() {
		n++
		f.publish(f.clusters(n, int(400+n%2), "a", "b"))
		<-f.hub.Finished()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*streams), "µs/stream")
	f.server.Stop(b.Context())
}
