package route_test

import (
	"fmt"
	"testing"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/route"
)

// BenchmarkVirtualHost is a miss of the memo: translation and encoding.
func BenchmarkVirtualHost(b *testing.B) {
	for _, size := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("routes=%d", size), func(b *testing.B) {
			in := benchmarkInput(size)
			b.ReportAllocs()
			var encoded int
			for b.Loop() {
				body, err := pb.Marshal(route.VirtualHost(in))
				if err != nil {
					b.Fatal(err)
				}
				encoded = len(body)
			}
			b.ReportMetric(float64(encoded), "encoded-B")
		})
	}
}

func benchmarkInput(size int) route.VirtualHostInput {
	const host = "reviews.default.svc.cluster.local"
	var refs []route.RouteRef
	for i := range size {
		ref := owned("reviews", fmt.Sprintf("r%d", i), prefix(fmt.Sprintf("/api/v1/resource-%d/", i)))
		ref.Route.Destinations = []model.Destination{{Host: host, Subset: "v1", Weight: 90}, {
			Host:   host,
			Subset: "v2",
			Weight: 10,
		}}
		ref.Route.Headers = &model.HeaderOps{Request: model.HeaderOp{Set: []model.Header{{
			Name:  "x-route",
			Value: "r",
		}}}}
		refs = append(refs, ref)
	}
	return route.VirtualHostInput{
		Domains: model.NewInterner[string]().List([]string{
			host, "reviews", "reviews.default", "reviews.default.svc", "10.0.0.7",
		}),
		Routes:  routes(refs...),
		Default: route.Target{Host: host, Port: 9080},
		Facts: model.NewInterner[route.DestinationFact]().List([]route.DestinationFact{
			{Host: host, Subset: "v1", Resolved: 9080}, {Host: host, Subset: "v2", Resolved: 9080},
		}),
		Retries: model.DefaultRetries(),
		Port:    9080,
	}
}
