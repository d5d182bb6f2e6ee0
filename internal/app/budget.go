package app

import (
	"cmp"
	"context"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// changeBudget returns how many proxies a change of an object of a namespace may reach.
func (p *Pipeline) changeBudget(namespace string) model.ChangeBudget {
	budget := model.ChangeBudget{Warns: p.o.Config.ChangeWarnsAt, Refuses: p.o.Config.ChangeRefusedAt}
	w := p.applied.Load()
	if w == nil {
		return budget
	}
	if n := w.Namespace(namespace); n != nil {
		budget.Warns = cmp.Or(n.Budget.Warns, budget.Warns)
		budget.Refuses = cmp.Or(n.Budget.Refuses, budget.Refuses)
	}
	return budget
}

// reach returns how many proxies would get something by changes: those of this replica, times the
// number of replicas. It returns false if that is not known before ctx ends.
func (p *Pipeline) reach(ctx context.Context, changes []source.Change) (proxies int, known bool) {
	select {
	case p.planning <- struct{}{}:
	case <-ctx.Done():
		return 0, false
	}
	reached := make(chan int, 1) // the loop may still be at it when ctx ends
	err := p.foresee(ctx, changes, func(f schedule.Foreseen) {
		n := 0
		if !f.Delta.IsEmpty() {
			for _, e := range p.compiler.Foresee(f.Delta).Effects {
				n += e.Proxies
			}
		}
		reached <- n
	})
	if err != nil {
		return 0, false
	}
	return <-reached * p.replicas(), true
}

// replicas returns how many replicas of the control plane are ready: the endpoints of its Service.
// Where that is not read it is one.
func (p *Pipeline) replicas() int {
	w := p.snapshot.Load()
	if w == nil || p.o.Cluster == nil {
		return 1
	}
	names := p.o.Cluster.o.Names
	return max(1, endpointsOf(w, model.Resolve(names.Service, names.Namespace, w.Mesh.Domain)))
}

// endpointsOf returns how many addresses serve a host.
func endpointsOf(w *state.Snapshot, host model.Host) int {
	addresses := map[string]bool{}
	for s := range w.Claims(host) {
		for _, e := range w.Endpoints(s).All() {
			addresses[e.Address] = true
		}
	}
	return len(addresses)
}
