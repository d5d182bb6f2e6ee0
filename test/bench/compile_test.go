package bench

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// BenchmarkAdvance takes the 40 classes of a mesh to the next generation.
func BenchmarkAdvance(b *testing.B) {
	atEachSize(b, func(b *testing.B, services int) {
		c := newCompiled(b, services)
		sidecar := editOf{"sidecar", editSidecar, func() source.Change {
			return meshgen.Upsert(meshgen.Sidecar(meshgen.Wide))
		}}
		measure := func(b *testing.B, e editOf) {
			changed, before := 0, c.compiler.Stats().Total()
			for b.Loop() {
				b.StopTimer()
				d := c.upstream.next(e.edit(c.variant()))
				b.StartTimer()
				c.compiler.Advance(d, func(s compile.Step) { changed += len(s.Changed) })
			}
			after := c.compiler.Stats().Total()
			b.ReportMetric(float64(changed)/float64(b.N), "classes/op")
			b.ReportMetric(float64(after.Misses-before.Misses)/float64(b.N), "misses/op")
		}
		eachEdit(b, append(edits, sidecar), c.next, measure)
		c.next(meshgen.Security(policed)...)
		eachEdit(b, policyEdits, c.next, measure)
		c.next(meshgen.Filters(policed)...)
		eachEdit(b, filterEdits, c.next, measure)
		c.next(meshgen.GatewayAPI(subject)...)
		eachEdit(b, attachEdits, c.next, measure)
	})
}

// BenchmarkPlan takes the step of BenchmarkAdvance on a fork, and throws it away.
func BenchmarkPlan(b *testing.B) {
	atEachSize(b, func(b *testing.B, services int) {
		c := newCompiled(b, services)
		eachEdit(b, edits, c.next, func(b *testing.B, e editOf) {
			changed := 0
			for b.Loop() {
				b.StopTimer()
				d := c.upstream.next(e.edit(c.variant()))
				b.StartTimer()
				changed += len(c.compiler.Plan(d).Changed)
				b.StopTimer()
				c.compiler.Advance(d, func(compile.Step) {})
				b.StartTimer()
			}
			b.ReportMetric(float64(changed)/float64(b.N), "classes/op")
		})
	})
}

// BenchmarkCompile compiles a class from nothing where all its translations are known already, as
// those of a proxy that is the first in its namespace.
func BenchmarkCompile(b *testing.B) {
	atEachSize(b, func(b *testing.B, services int) {
		c := newCompiled(b, services, gatewayProxy, openProxy, wideProxy, narrowProxy)
		for _, of := range []struct {
			name  string
			proxy int
		}{{"open", openProxy}, {"wide", wideProxy}, {"narrow", narrowProxy}, {"gateway", gatewayProxy}} {
			change(b, of.name, func(b *testing.B) {
				facts := factsOf(c.proxies[of.proxy])
				facts.Proxy.Settings.HTTP10 = true // which makes it another class
				size := 0
				for b.Loop() {
					var joined *compile.Member
					c.compiler.Join(facts, func(m *compile.Member, at compile.Placement) {
						joined, size = m, at.State.Size()
					})
					c.compiler.Leave(joined)
				}
				b.ReportMetric(float64(size), "config-B/op")
			})
		}
	})
}

// BenchmarkDiff finds what differs between two sets of clusters: of a class before and after a
// change of its rule, of two classes, and of one and nothing.
func BenchmarkDiff(b *testing.B) {
	atEachSize(b, func(b *testing.B, services int) {
		c := newCompiled(b, services, openProxy, otherProxy)
		diff := func(name string, from, to *resource.Set) {
			change(b, name, func(b *testing.B) {
				n := 0
				for b.Loop() {
					n = 0
					resource.Diff(from, to, func(_, _ *resource.Resource) { n++ })
				}
				b.ReportMetric(float64(n), "differences/op")
			})
		}
		before, after := c.step(openProxy, editRule)
		diff("generation", before.Set(resource.Cluster), after.Set(resource.Cluster))
		diff("class", after.Set(resource.Cluster), c.state(otherProxy).Set(resource.Cluster))
		diff("everything", resource.Empty(), after.Set(resource.Cluster))
	})
}

// BenchmarkAssemble puts the bytes of the two lists together that go on the wire whole.
func BenchmarkAssemble(b *testing.B) {
	atEachSize(b, func(b *testing.B, services int) {
		c := newCompiled(b, services, openProxy)
		state := c.state(openProxy)
		change(b, "routetable", func(b *testing.B) {
			vhosts := state.Tables().Get("http_proxy").VirtualHosts()
			size := 0
			for b.Loop() {
				size = len(resource.NewRouteTable("http_proxy", nil, vhosts).Body())
			}
			b.ReportMetric(float64(size), "body-B/op")
		})
		change(b, "assignment", func(b *testing.B) {
			name := "outbound|80||" + meshgen.Host(subject)
			groups := state.Set(resource.Endpoint).Get(name).Groups()
			size := 0
			for b.Loop() {
				size = len(resource.NewAssignment(name, nil, groups).Body())
			}
			b.ReportMetric(float64(size), "body-B/op")
		})
	})
}
