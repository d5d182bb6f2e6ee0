package app

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/mesh/validate"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Analyze reads what a source has at first, and returns what is wrong with it: of files that cannot
// be read, of each object, and of what objects say about each other. It serves nobody, listens
// nowhere and fetches no keys of token issuers. Of the options it uses Source, Config, Mesh,
// MeshConfigMap, Selected, Workers, Pods and Log.
func Analyze(ctx context.Context, o Options) ([]source.Problem, error) {
	_, problems, err := readOnce(ctx, o)
	return problems, err
}

// readOnce returns the mesh of what a source has at first, and what is wrong with that.
func readOnce(ctx context.Context, o Options) (*state.Snapshot, []source.Problem, error) {
	o.Mesh.OwnHostsOnly, o.Mesh.Sessions = o.Config.OwnHostsOnly, o.Config.Sessions
	store := validate.NewProblemStore(o.Log, nil)
	var snapshot atomic.Pointer[state.Snapshot]
	loop := schedule.NewLoop(schedule.LoopOptions{
		Converter: convert.New(convert.Options{
			Defaults: o.Mesh, ConfigMap: o.MeshConfigMap, Selected: o.Selected, Unready: o.Config.SendUnhealthy,
			Workers: o.Workers,
		}),
		Mesh: o.Mesh, Writer: newWriter(o), Problems: store, Logger: o.Log, Checks: o.checks(),
		Publish: func(w *state.Snapshot, _ *state.Delta) { snapshot.Store(w) },
		Batched: func(schedule.BatchStats) {},
		Arrived: func(source.Change) {},
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, running := errgroup.WithContext(ctx)
	synced := make(chan struct{})
	var once sync.Once
	sink := loop.Sink(running)
	g.Go(func() error { return loop.Run(running) })
	g.Go(func() error {
		return o.Source.Run(running, func(e source.Event) {
			sink(e)
			if e.Synced {
				once.Do(func() { close(synced) })
			}
		})
	})
	var err error
	select {
	case <-synced:
		_, err = loop.Flush(running)
	case <-running.Done():
		err = running.Err()
	}
	problems := store.Problems()
	stop()
	if failed := g.Wait(); failed != nil {
		err = failed
	}
	return snapshot.Load(), problems, err
}
