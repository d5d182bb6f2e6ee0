package wire

import (
	"flag"
	"fmt"
	"testing"
)

var streams = flag.Int("streams", 1000, "how many streams the benchmarks open to each server")

// BenchmarkStream measures what an idle stream takes: of both servers, each stream on a connection
// of its own.
func BenchmarkStream(b *testing.B) {
	each(b, func(b *testing.B, r *rig) {
		for b.Loop() {
			bare, lateen := r.idle(r.bare), r.idle(r.lateen)
			b.ReportMetric(float64(lateen.heap), "heap-B/stream")
			b.ReportMetric(float64(lateen.stacks), "stack-B/stream")
			b.ReportMetric(float64(lateen.resident), "resident-B/stream")
			b.ReportMetric(lateen.goroutines, "goroutines/stream")
			b.ReportMetric(float64(bare.heap), "bare-heap-B/stream")
			b.ReportMetric(float64(bare.stacks), "bare-stack-B/stream")
			b.ReportMetric(float64(bare.resident), "bare-resident-B/stream")
			b.ReportMetric(bare.goroutines, "bare-goroutines/stream")
		}
	})
}

// BenchmarkPush measures what a message of 438 bytes to each stream and its ACK take of the
// server's CPU: ten pushes to one server, ten to the other, in turn; medians.
func BenchmarkPush(b *testing.B) {
	const times = 10
	each(b, func(b *testing.B, r *rig) {
		var bare, lateen, ratio, allocated, bareAllocated []float64
		for b.Loop() {
			x, y := r.push(r.bare, times), r.push(r.lateen, times)
			bare, lateen, ratio = append(bare, x.cpu), append(lateen, y.cpu), append(ratio, y.cpu/x.cpu)
			allocated, bareAllocated = append(allocated, y.allocated), append(bareAllocated, x.allocated)
		}
		b.ReportMetric(median(lateen)/1000, "cpu-µs/message")
		b.ReportMetric(median(bare)/1000, "bare-cpu-µs/message")
		b.ReportMetric(median(ratio), "ratio")
		b.ReportMetric(median(allocated), "allocated-B/message")
		b.ReportMetric(median(bareAllocated), "bare-allocated-B/message")
	})
}

func each(b *testing.B, f func(*testing.B, *rig)) {
	for _, c := range []struct{ name, suffix string }{{"plain", ""}, {"tls", "s"}} {
		b.Run(fmt.Sprintf("streams=%d/transport=%s", *streams, c.name), func(b *testing.B) {
			r := newRig(b, *streams, c.suffix)
			f(b, r)
		})
	}
}
