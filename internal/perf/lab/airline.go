package lab

import (
	"context"

	"github.com/lateen-mesh/lateen/internal/perf/dataplane"
)

// StartAirline starts the airline of the lab app with sidecars behind a gateway, for who sends
// requests with another program. Of the options Envoy, Self, StateDir, Version and Progress count.
func StartAirline(ctx context.Context, o Options) (*dataplane.Application, error) {
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	r := &run{Options: o}
	state, err := r.stateOf("airline")
	if err != nil {
		return nil, err
	}
	return r.meshedAirline(ctx, state, true)
}
