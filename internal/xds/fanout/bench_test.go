package fanout_test

import (
	"fmt"
	"testing"

	"github.com/lateen-mesh/lateen/internal/view"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

func upserts(b *testing.B, n int) *view.Change {
	resources := make([]*view.Resource, n)
	for i := range resources {
		resources[i] = cluster(b, fmt.Sprintf("outbound|80||svc-%d.default.svc.cluster.local", i), 1500, false)
	}
	return view.NewDiffer(1).Diff(view.Cluster, view.Empty(), view.NewStore().Build(resources...))
}

func BenchmarkEncode(b *testing.B) {
	change := upserts(b, 100)
	r := session.Response{Type: view.Cluster, Nonce: "12345678", Version: "v", Upserts: change.Upserts}
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
				fanout.Encode(c.protocol, c.response, view.Own{})
			}
		})
	}
}

// BenchmarkPublish is one generation to 1,000 connections of one class, each of which takes it and acknowledges.
func BenchmarkPublish(b *testing.B) {
	f := newFixture(0)
	conns := make([]*fanout.Conn, 1000)
	for i := range conns {
		conns[i] = f.connect(1)
	}
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		n++
		f.publish(n, 1)
		for _, c := range conns {
			<-c.Wake()
			p, _ := c.Take()
			c.Sent(p.State.Generation, 500)
			c.Acknowledged(p.State.Generation)
		}
		<-f.hub.Finished()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/conn")
}
