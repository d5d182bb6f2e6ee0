package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lateen-mesh/lateen/internal/ingest"
	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
	"github.com/lateen-mesh/lateen/internal/view"
	"github.com/lateen-mesh/lateen/internal/world"
)

// manyClasses is how many classes are connected: of two services in each of 200 namespaces, which listen on different ports.
const manyClasses = 400

// BenchmarkClasses takes 400 classes of a large estate to the next generation, from the delta to their new states, and connects
// all of them to a new compiler.
func BenchmarkClasses(b *testing.B) {
	for _, services := range []int{400, 4000} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			e := meshgen.Estate{Namespaces: 200, Services: services, Pods: services, Policies: true, Ports: 2}
			converter, writer := ingest.New(ingest.Options{}), world.NewWriter()
			apply := func(changes ...source.Change) *world.Delta {
				var updates []world.Update
				for _, c := range changes {
					updates = append(updates, world.Update{Key: c.Key, Objects: converter.Convert(c, model.DefaultMesh()).Objects})
				}
				_, d := writer.Apply(updates)
				return d
			}
			first, compiler := apply(e.Objects()...), (*view.Compiler)(nil)
			b.Run("connect", func(b *testing.B) {
				for b.Loop() {
					compiler = connectAll(first, e.Proxies(manyClasses))
				}
			})
			compiler = connectAll(first, e.Proxies(manyClasses))
			require.Equal(b, manyClasses, compiler.Stats().Classes)
			variant := 0
			for _, c := range estateChanges(e, 205) {
				b.Run(c.name, func(b *testing.B) {
					b.ReportAllocs()
					before := compiler.Stats()
					for b.Loop() {
						b.StopTimer()
						variant++
						d := apply(c.of(variant))
						b.StartTimer()
						compiler.Advance(d, func(view.Step) {})
					}
					after := compiler.Stats()
					per := func(before, after uint64) float64 { return float64(after-before) / float64(b.N) }
					b.ReportMetric(per(before.Total().Misses, after.Total().Misses), "misses/op")
					b.ReportMetric(per(before.Work.Edits, after.Work.Edits), "edits/op")
					b.ReportMetric(per(before.Work.Nodes, after.Work.Nodes), "nodes/op")
					b.ReportMetric(per(before.Work.Units, after.Work.Units), "units/op")
				})
			}
		})
	}
}

func connectAll(first *world.Delta, proxies []meshgen.Proxy) *view.Compiler {
	compiler := view.NewCompiler(view.Refusals{Endpoint: func(model.Endpoint, error) {}, Resource: func(string, error) {}})
	compiler.Advance(first, func(view.Step) {})
	for _, p := range proxies {
		compiler.Join(view.Facts{Address: p.Address, Proxy: scope.Proxy{
			Namespace: p.Namespace, Name: p.Pod, Labels: model.LabelsOf(p.Labels), Settings: scope.Settings{HTTPProxyPort: p.HTTPProxyPort},
		}}, func(*view.Member, view.Placement) {})
	}
	return compiler
}

// estateChanges are changes of one service of an estate.
func estateChanges(e meshgen.Estate, service int) []aChange {
	return []aChange{
		{"endpoint", func(v int) source.Change {
			return meshgen.Upsert(edited(e.Slice(service), func(s *discoveryv1.EndpointSlice) {
				s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("127.%d.%d.%d", 200+v>>16%50, byte(v>>8), byte(v))}})
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
