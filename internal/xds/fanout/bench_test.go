package fanout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

func upserts(b *testing.B, n int) *resource.Change {
	resources := make([]*resource.Resource, n)
	for i := range resources {
		resources[i] = cluster(b, fmt.Sprintf("outbound|80||svc-%d.default.svc.cluster.local", i), 1500, false)
	}
	return resource.NewDiffer(1).Diff(resource.Cluster, resource.Empty(), resource.NewStore().Build(resources...))
}

func BenchmarkEncode(b *testing.B) {
	change := upserts(b, 100)
	r := session.Response{Type: resource.Cluster, Nonce: "12345678", Version: "v", Upserts: change.Upserts}
	shared := r
	shared.Shared = change
	for _, c := range []struct {
		name     string
		protocol session.Protocol
		response session.Response
	}{
		{"delta/shared", session.Delta, shared},
		{"delta/own", session.Delta, r},
		{"sotw", session.StateOfTheWorld, r},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fanout.Encode(c.protocol, c.response, resource.Overlay{})
			}
		})
	}
}

// BenchmarkPublish offers new states of 400 classes to their connections, which then take and
// acknowledge them: publish-ns/op is the time of the first alone.
func BenchmarkPublish(b *testing.B) {
	const classes = 400
	for _, members := range []int{1, 5, 40} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			f := newFixture(1)
			g := fanout.Generation{Cause: "test", Observed: epoch}
			var conns []*fanout.Conn
			for i := range classes * members {
				conns = append(conns, f.connect(fanout.ClassID(i%classes)))
			}
			for class := range fanout.ClassID(classes) {
				g.Changed = append(g.Changed, fanout.ClassChange{Class: class, State: resource.NewState(0)})
			}
			var publishing time.Duration
			for b.Loop() {
				g.Number++
				for i := range g.Changed {
					g.Changed[i].State = g.Changed[i].State.At(g.Number)
				}
				start := time.Now()
				f.hub.Publish(g)
				publishing += time.Since(start)
				for _, c := range conns {
					c.Take()
					c.Acknowledged(g.Number)
				}
			}
			b.ReportMetric(float64(publishing)/float64(b.N), "publish-ns/op")
		})
	}
}
