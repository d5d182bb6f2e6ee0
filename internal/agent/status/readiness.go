package status

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
)

// Readiness says whether Envoy serves with a configuration of the control plane. Once it does, it
// does until it ends: Envoy goes on with what it has, whoever else is gone.
type Readiness struct {
	// Stats asks Envoy for statistics whose names match an expression, as "name: value" lines.
	Stats func(ctx context.Context, filter string) (string, error)
	// Accepted reports whether Envoy has accepted clusters and listeners; it may be nil. It spares
	// Envoy the question, and is true for a configuration of the last start too.
	Accepted func() bool
	// Ending is closed when the agent is told to end: a Pod that drains is not ready.
	Ending <-chan struct{}

	ready atomic.Bool
}

// The statistics that tell Envoy's state. Server.state is 0 for one that serves.
const (
	serverState    = "server.state"
	workersStarted = "listener_manager.workers_started"
	cdsSuccess     = "cluster_manager.cds.update_success"
	cdsRejected    = "cluster_manager.cds.update_rejected"
	ldsSuccess     = "listener_manager.lds.update_success"
	ldsRejected    = "listener_manager.lds.update_rejected"

	readinessFilter = `^(server\.state|listener_manager\.workers_started|` +
		`(cluster_manager\.cds|listener_manager\.lds)\.update_(success|rejected))$`
)

// states are the values of server.state.
var states = []string{"LIVE", "DRAINING", "PRE_INITIALIZING", "INITIALIZING"}

// Check returns nil when the proxy is ready, or why it is not.
func (r *Readiness) Check(ctx context.Context) error {
	select {
	case <-r.Ending:
		return errors.New("the proxy drains")
	default:
	}
	if r.ready.Load() {
		return nil
	}
	text, err := r.Stats(ctx, readinessFilter)
	if err != nil {
		return err
	}
	if err := judge(parseStats(text), r.Accepted != nil && r.Accepted()); err != nil {
		return err
	}
	r.ready.Store(true)
	return nil
}

// judge reads Envoy's state.
func judge(stats map[string]uint64, accepted bool) error {
	cds, lds := stats[cdsSuccess] > 0, stats[ldsSuccess] > 0
	switch {
	case accepted, cds && lds:
	case stats[cdsRejected] > 0 || stats[ldsRejected] > 0:
		return fmt.Errorf("the Envoy has refused the configuration: %d updates of clusters, %d of listeners",
			stats[cdsRejected], stats[ldsRejected])
	case !cds && !lds:
		return errors.New("no configuration has come from the control plane yet")
	default:
		return errors.New("a part of the configuration has not come from the control plane yet")
	}
	state, known := stats[serverState]
	switch {
	case !known:
		return errors.New("the Envoy does not say its state yet")
	case state != 0 && state < uint64(len(states)):
		return fmt.Errorf("the Envoy is %s", states[state])
	case state != 0:
		return fmt.Errorf("the Envoy is in state %d", state)
	case stats[workersStarted] != 1:
		return errors.New("the workers of Envoy have not started yet")
	}
	return nil
}

func parseStats(text string) map[string]uint64 {
	all := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if n, err := strconv.ParseUint(value, 10, 64); ok && err == nil {
			all[name] = n
		}
	}
	return all
}
