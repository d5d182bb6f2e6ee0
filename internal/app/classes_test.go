package app

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
)

// manyClasses is how many classes are connected: of two services in each of 200 namespaces, which
// listen on different ports.
const manyClasses = 400

// together is how many changes are measured at a time. They are made ready before, so that the
// clock and the counts are those of the changes: to stop and to start them stops the world.
const together = 250

// BenchmarkClasses takes 400 classes of a large estate to the next generation, from an object that
// changed to their new states, and connects all of them to a new compiler. Of the time that a
// change takes it tells what the state took, and what the processors spent, on garbage collection
// too.
func BenchmarkClasses(b *testing.B) {
	for _, services := range []int{400, 4000} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			e := meshgen.Estate{Namespaces: 200, Services: services, Pods: services, Policies: true, Ports: 2}
			estate := newClassesOf(e)
			b.Run("connect", func(b *testing.B) {
				for b.Loop() {
					connectAll(estate.first, e.Proxies(manyClasses))
				}
			})
			estate.compiler = connectAll(estate.first, e.Proxies(manyClasses))
			require.Equal(b, manyClasses, estate.compiler.Stats().Classes)
			for _, c := range estateChanges(e, 205) {
				b.Run(c.name, func(b *testing.B) { estate.measure(b, c) })
			}
		})
	}
}

// classesOf is an estate with what its classes have.
type classesOf struct {
	converter *convert.Converter
	writer    *state.Writer
	first     *state.Delta
	compiler  *compile.Compiler
	variant   int
}

func newClassesOf(e meshgen.Estate) *classesOf {
	c := &classesOf{converter: convert.New(convert.Options{}), writer: state.NewWriter()}
	_, c.first = c.writer.Apply(c.updates(e.Objects()...))
	return c
}

func (c *classesOf) updates(changes ...source.Change) []state.Update {
	var updates []state.Update
	for _, change := range changes {
		updates = append(updates, state.Update{
			Key:     change.Key,
			Objects: c.converter.Convert(change, model.DefaultMesh()).Objects,
		})
	}
	return updates
}

// next are variants of a change that were not there before.
func (c *classesOf) next(change aChange, n int) [][]state.Update {
	list := make([][]state.Update, n)
	for i := range list {
		c.variant++
		list[i] = c.updates(change.of(c.variant))
	}
	return list
}

func (c *classesOf) measure(b *testing.B, change aChange) {
	b.ReportAllocs()
	before := c.compiler.Stats()
	var inWorld, processors time.Duration
	for left := b.N; left > 0; {
		b.StopTimer()
		changes := c.next(change, min(left, together))
		left -= len(changes)
		b.StartTimer()
		spent := processorTime(b)
		for _, updates := range changes {
			start := time.Now()
			_, d := c.writer.Apply(updates)
			inWorld += time.Since(start)
			c.compiler.Advance(d, func(compile.Step) {})
		}
		processors += processorTime(b) - spent
	}
	after := c.compiler.Stats()
	per := func(before, after uint64) float64 { return float64(after-before) / float64(b.N) }
	b.ReportMetric(float64(inWorld)/float64(b.N), "world-ns/op")
	b.ReportMetric(float64(processors)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(per(before.Total().Misses, after.Total().Misses), "misses/op")
	b.ReportMetric(per(before.Work.Edits, after.Work.Edits), "edits/op")
	b.ReportMetric(per(before.Work.Nodes, after.Work.Nodes), "nodes/op")
	b.ReportMetric(per(before.Work.Units, after.Work.Units), "units/op")
}

// processorTime is what all threads of the process have used of the processors.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func connectAll(first *state.Delta, proxies []meshgen.Proxy) *compile.Compiler {
	compiler := compile.NewCompiler(compile.Refusals{
		Endpoint: func(model.Endpoint, error) {},
		Resource: func(string, error) {},
		Patch:    func(compile.RefusedPatch) {},
	})
	compiler.CountWork()
	compiler.Advance(first, func(compile.Step) {})
	for _, p := range proxies {
		compiler.Join(compile.Facts{Proxy: scope.Proxy{
			Address:   p.Address,
			Namespace: p.Namespace,
			Name:      p.Pod,
			Labels:    model.LabelsOf(p.Labels),
			Settings:  scope.Settings{HTTPProxyPort: p.HTTPProxyPort},
		}}, func(*compile.Member, compile.Placement) {})
	}
	return compiler
}

// estateChanges are changes of one service of an estate.
func estateChanges(e meshgen.Estate, service int) []aChange {
	return []aChange{
		{"endpoint", func(v int) source.Change {
			return meshgen.Upsert(edited(e.Slice(service), func(s *discoveryv1.EndpointSlice) {
				s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
					Addresses: []string{fmt.Sprintf("127.%d.%d.%d", 200+v>>16%50, byte(v>>8), byte(v))},
				})
			}))
		}},
		{"VirtualService", func(v int) source.Change {
			return meshgen.Upsert(edited(e.Routes(service), func(s *networkingv1.VirtualService) {
				s.Spec.Http[0].Timeout = durationpb.New(time.Duration(v) * time.Millisecond)
			}))
		}},
		{"DestinationRule", func(v int) source.Change {
			return meshgen.Upsert(edited(e.Rule(service), func(r *networkingv1.DestinationRule) {
				r.Spec.TrafficPolicy = &networking.TrafficPolicy{ConnectionPool: &networking.ConnectionPoolSettings{
					Tcp: &networking.ConnectionPoolSettings_TCPSettings{MaxConnections: int32(v)},
				}}
			}))
		}},
	}
}
