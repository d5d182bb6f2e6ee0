package app

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// generation is a step of the mesh, as its consumers get it.
type generation struct {
	snapshot *state.Snapshot
	delta    *state.Delta
	// step is what it compiles to; zero before that. Its classes are valid until it is published.
	step compile.Step
	// start is when it was begun to be compiled.
	start time.Time
}

// consumers are those who take each generation, in this order. The loop's goroutine calls them.
type consumers struct {
	// first take what is not compiled yet.
	first []func(*generation)
	// published take what is compiled before any proxy joins it.
	published []func(*generation)
	// last take it when proxies may join it.
	last []func(*generation)
}

// consumersInOrder returns all consumers. Who wants to know of generations has a line here.
func (p *Pipeline) consumersInOrder() consumers {
	c := consumers{
		first: []func(*generation){
			func(g *generation) { p.snapshot.Store(g.snapshot) },
			func(g *generation) { p.meters.snapshot(g.snapshot, g.delta) },
			func(g *generation) { p.keys.keeper.Update(demandsOf(g.snapshot, g.delta)) },
			func(*generation) { p.differ.Advance() },
		},
		published: []func(*generation){
			p.remember, // before anyone settles it
			func(g *generation) { p.hub.Publish(p.registry.generation(g.step, g.delta)) },
			func(*generation) { p.registry.setReady() },
			p.endStreamsOfRemovedPods,
			func(g *generation) { p.conflicts(g.step.Appeared, g.step.Fixed) },
		},
	}
	if cluster := p.o.Cluster; cluster != nil {
		c.last = append(c.last, cluster.updateIngresses, cluster.updateAttachments)
	}
	return c
}

// advance compiles a generation and publishes it. It runs in the loop's goroutine.
func (p *Pipeline) advance(w *state.Snapshot, d *state.Delta) {
	g := &generation{snapshot: w, delta: d, start: time.Now()}
	for _, take := range p.consumers.first {
		take(g)
	}
	p.compiler.Advance(d, func(step compile.Step) {
		g.step = step
		for _, take := range p.consumers.published {
			take(g)
		}
	})
	for _, take := range p.consumers.last {
		take(g)
	}
	p.meters.compileTime(time.Since(g.start))
	p.meters.compilerStats(p.compiler)
}

// endStreamsOfRemovedPods tells the server which Pods went and came.
func (p *Pipeline) endStreamsOfRemovedPods(g *generation) {
	for _, w := range g.delta.Workloads {
		switch {
		case w.New == nil:
			p.server.PodGone(w.Old.Namespace, w.Old.Name)
		case w.Old == nil:
			p.server.PodCame(w.New.Namespace, w.New.Name)
		}
	}
}
