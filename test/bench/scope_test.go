package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
)

// BenchmarkScope finds the class of a proxy, asks whether a change moves it to another, and looks
// at the world as its class does: at one service with its routes and rules, and at all hosts.
func BenchmarkScope(b *testing.B) {
	atEachSize(b, func(b *testing.B, services int) {
		u, _ := newUpstream(b, services)
		facts := factsOf(meshgen.Proxies()[openProxy])
		classifier := scope.NewClassifier()
		class := classifier.Classify(u.writer.Snapshot(), facts.Proxy)
		change(b, "classify", func(b *testing.B) {
			for b.Loop() {
				classifier.Classify(u.writer.Snapshot(), facts.Proxy)
			}
		})
		change(b, "moves", func(b *testing.B) {
			d := u.next(editService(u.variant()))
			for b.Loop() {
				scope.MovesOf(d).Affects(facts.Proxy)
			}
		})
		change(b, "service", func(b *testing.B) {
			host := model.Host(meshgen.Host(subject))
			for b.Loop() {
				s := scope.New(u.writer.Snapshot(), &class)
				svc := s.Service(host)
				if svc == nil || s.VirtualService(host, 80, scope.HTTPRoutes) == nil || s.DestinationRule(svc) == nil {
					b.Fatal("the class does not see the service")
				}
			}
		})
		change(b, "everything", func(b *testing.B) {
			n := 0
			for b.Loop() {
				n = 0
				for range scope.New(u.writer.Snapshot(), &class).Hosts() {
					n++
				}
			}
			require.NotZero(b, n)
		})
	})
}
