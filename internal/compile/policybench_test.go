package compile_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// BenchmarkEditOfAPolicy edits one of many policies of a namespace, each of which selects a
// workload of its own. 40 of the workloads have a proxy. One class gets anything, at a cost that
// follows its policies, not those of the namespace.
func BenchmarkEditOfAPolicy(b *testing.B) {
	for _, policies := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint("policies=", policies), func(b *testing.B) {
			m := newPolicedWorld(state.NewWriter(), policies)
			changed := 0
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, delta := m.writer.Apply([]state.Update{policyFor(0, i%2)})
				m.compiler.Advance(delta, func(s compile.Step) { changed += len(s.Changed) })
			}
			b.ReportMetric(float64(changed)/float64(b.N), "classes/op")
		})
	}
}

// policedWorld is a mesh with policies, and its compiler.
type policedWorld struct {
	writer   *state.Writer
	compiler *compile.Compiler
}

func newPolicedWorld(writer *state.Writer, policies int) policedWorld {
	m := policedWorld{writer, compile.NewCompiler(compile.Refusals{
		Endpoint: func(model.Endpoint, error) {}, Resource: func(string, error) {},
	})}
	svc := &model.Service{
		Meta: model.Meta{Kind: kinds.Service, Namespace: "shop", Name: "all"}, Host: "all.shop.svc.cluster.local",
		Selector: model.LabelsOf(map[string]string{"served": "yes"}), ExportTo: model.Exports{All: true},
		Ports: []model.ServicePort{{Name: "http", Port: 80, Protocol: model.HTTP, Target: 8080}},
	}
	updates := []state.Update{{Key: svc.Key(), Objects: []model.Object{svc}}}
	for i := range policies {
		updates = append(updates, policyFor(i, 0))
	}
	_, delta := m.writer.Apply(updates)
	m.compiler.Advance(delta, func(compile.Step) {})
	for i := range 40 {
		labels := model.LabelsOf(map[string]string{"app": appOf(i), "served": "yes"})
		m.compiler.Join(compile.Facts{Proxy: scope.Proxy{
			Namespace: "shop", Name: appOf(i), Address: fmt.Sprintf("10.0.0.%d", i+1), Labels: labels,
			Settings: scope.Settings{Intercepted: true, Agent: true},
		}}, func(*compile.Member, compile.Placement) {})
	}
	return m
}

func appOf(i int) string { return fmt.Sprint("app-", i) }

// policyFor is the policy of a workload in one of its variants.
func policyFor(i, variant int) state.Update {
	p := &model.AuthorizationPolicy{
		Meta:      model.Meta{Kind: kinds.AuthorizationPolicy, Namespace: "shop", Name: appOf(i)},
		Selection: model.Selection{Selector: model.LabelsOf(map[string]string{"app": appOf(i)})},
		Action:    model.AuthorizationDeny,
		Rules: &model.AuthorizationRules{List: []model.AuthorizationRule{{To: []model.AuthorizationConditions{
			{{Attribute: model.RequestPath, Values: []string{fmt.Sprint("/never/", variant)}}},
		}}}},
	}
	return state.Update{Key: p.Key(), Objects: []model.Object{p}}
}

// TestAnEditOfAPolicyReadsNoOtherPolicy counts what an edit of one policy among many of a namespace
// looks up: as much among 2,000 as among 100.
func TestAnEditOfAPolicyReadsNoOtherPolicy(t *testing.T) {
	read := func(policies int) uint64 {
		m := newPolicedWorld(state.NewCountingWriter(), policies)
		before := m.writer.Snapshot().Lookups()
		_, delta := m.writer.Apply([]state.Update{policyFor(0, 1)})
		m.compiler.Advance(delta, func(s compile.Step) { require.Len(t, s.Changed, 1) })
		return m.writer.Snapshot().Lookups() - before
	}
	require.Equal(t, read(100), read(2000))
}
