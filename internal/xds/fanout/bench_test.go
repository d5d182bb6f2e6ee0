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
