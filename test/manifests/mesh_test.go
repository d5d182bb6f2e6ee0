package manifests

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/mesh/validate"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// mesh is the pipeline from a source to the sets of a few proxies, as package app puts it together.
type mesh struct {
	t     tester
	loop  *schedule.Loop
	store *validate.ProblemStore
	ctx   context.Context
	stop  func()

	proxies map[*compile.Member]string
	// placing is for placed: nothing but a file orders a test's look at it before the generation
	// that an edit leads to.
	placing sync.Mutex
	placed  map[*compile.Member]compile.Placement
	// kept are the names of resources that were kept back since Envoy would refuse them.
	kept []string

	mu   sync.Mutex
	seen map[source.Key]chan struct{} // expected at the sink
}

// proxies are those that the sets are made for: sidecars of two namespaces and a gateway.
func proxies() map[string]compile.Facts {
	app := model.LabelsOf(map[string]string{"app": "a"})
	sidecar := func(namespace, name string, labels model.Labels) compile.Facts {
		return compile.Facts{Proxy: scope.Proxy{
			Address:   "127.32.0.1",
			Namespace: namespace, Name: name, Labels: labels, Settings: scope.Settings{HTTPProxyPort: 15080},
		}}
	}
	gateway := scope.Proxy{
		Type:      scope.Router,
		Address:   "127.32.0.9",
		Namespace: "istio-system",
		Name:      "gateway",
		Labels:    model.LabelsOf(map[string]string{"istio": "ingress", model.GatewayNameLabel: "a"}),
	}
	return map[string]compile.Facts{
		"default/a":     sidecar("default", "a", app),
		"default/other": sidecar("default", "other", model.Labels{}),
		"shop/a":        sidecar("shop", "a", app),
		"gateway":       {Proxy: gateway},
	}
}

// tester is what of a test, a property and a fuzz target a mesh needs.
type tester interface {
	require.TestingT
	Cleanup(func())
}

// start runs a source until stop, or the end of the test.
func start(t tester, s source.Source) *mesh {
	ctx, cancel := context.WithCancel(context.Background())
	m := &mesh{
		t:       t,
		ctx:     ctx,
		proxies: map[*compile.Member]string{},
		placed:  map[*compile.Member]compile.Placement{},
		seen:    map[source.Key]chan struct{}{},
	}
	quiet := slog.New(slog.DiscardHandler)
	m.store = validate.NewProblemStore(quiet, nil)
	compiler := compile.NewCompiler(compile.Refusals{
		Endpoint: func(e model.Endpoint, err error) { m.kept = append(m.kept, fmt.Sprintf("%v: %v", e, err)) },
		Resource: func(name string, err error) { m.kept = append(m.kept, fmt.Sprintf("%s: %v", name, err)) },
	})
	for name, f := range proxies() {
		compiler.Join(f, func(member *compile.Member, p compile.Placement) {
			m.proxies[member], m.placed[member] = name, p
		})
	}
	m.loop = schedule.NewLoop(schedule.LoopOptions{
		Converter: convert.New(convert.Options{}), Mesh: model.DefaultMesh(), Problems: m.store, Logger: quiet,
		Publish: func(_ *state.Snapshot, d *state.Delta) { compiler.Advance(d, m.take) },
		Batched: func(schedule.BatchStats) {}, Arrived: func(source.Change) {},
	})
	var running sync.WaitGroup
	running.Go(func() { _ = m.loop.Run(ctx) })
	running.Go(func() { _ = s.Run(ctx, m.sink(m.loop.Sink(ctx))) })
	m.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(m.stop)
	return m
}

// take is a generation for the proxies.
func (m *mesh) take(s compile.Step) {
	m.placing.Lock()
	defer m.placing.Unlock()
	for _, moved := range s.Moved {
		m.placed[moved.Member] = moved.Placement
	}
	for _, changed := range s.Changed {
		for member, p := range m.placed {
			if p.Class == changed.Class {
				p.State = changed.State
				m.placed[member] = p
			}
		}
	}
	m.store.Conflicts(s.Appeared, s.Fixed)
}

func (m *mesh) sink(to source.Sink) source.Sink {
	return func(e source.Event) {
		to(e)
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, c := range e.Changes {
			if passed := m.seen[c.Key]; passed != nil {
				close(passed)
				delete(m.seen, c.Key)
			}
		}
	}
}

// expect is closed once a change of a key has come.
func (m *mesh) expect(k source.Key) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[k] = make(chan struct{})
	return m.seen[k]
}

// settle waits until all that was delivered is in the sets.
func (m *mesh) settle() {
	_, err := m.loop.Flush(m.ctx)
	require.NoError(m.t, err)
}

// resources are what each proxy has: the version of each resource, virtual hosts apart from their
// tables.
func (m *mesh) resources() map[string]string {
	m.placing.Lock()
	defer m.placing.Unlock()
	out := map[string]string{}
	for member, p := range m.placed {
		for typ, set := range p.State.Sets() {
			for r := range set.All() {
				out[fmt.Sprintf("%s %s %s", m.proxies[member], resource.Type(typ),
					r.Name())] = p.Overlay.Version(r).String()
			}
		}
	}
	return out
}

// problems are those that stand, without the places where the objects are written down.
func (m *mesh) problems() []string {
	var out []string
	for _, p := range m.store.Problems() {
		p.Origin = ""
		out = append(out, p.String())
	}
	slices.Sort(out)
	return out
}
