package status

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

const live = "server.state: 0\nlistener_manager.workers_started: 1\n"

func TestAProxyIsReadyWithAConfigurationInForce(t *testing.T) {
	const updated = "cluster_manager.cds.update_success: 1\nlistener_manager.lds.update_success: 1\n"
	for _, test := range []struct {
		stats    string
		accepted bool
		says     string // empty when it is ready
	}{
		{"", false, "no configuration has come"},
		{live, false, "no configuration has come"},
		{live + "cluster_manager.cds.update_success: 1\n", false, "a part of the configuration has not come"},
		{live + "listener_manager.lds.update_rejected: 2\n", false,
			"the Envoy has refused the configuration: 0 updates of clusters, 2 of listeners"},
		{updated, false, "the Envoy does not say its state"},
		{updated + "server.state: 2\n", false, "the Envoy is PRE_INITIALIZING"},
		{updated + "server.state: 9\n", false, "the Envoy is in state 9"},
		{updated + "server.state: 0\nlistener_manager.workers_started: 0\n", false, "the workers of Envoy have not"},
		{updated + live, false, ""},
		{live, true, ""},
		{"", true, "the Envoy does not say its state"},
	} {
		r := &Readiness{
			Stats:    func(context.Context, string) (string, error) { return test.stats, nil },
			Accepted: func() bool { return test.accepted },
		}
		err := r.Check(context.Background())
		if test.says == "" {
			require.NoError(t, err, test.stats)
			continue
		}
		require.ErrorContains(t, err, test.says)
	}
}

func TestAProxyThatWasReadyIsUntilItEnds(t *testing.T) {
	ending, gone := make(chan struct{}), errors.New("refused")
	answer, failure := live, error(nil)
	r := &Readiness{
		Stats:    func(context.Context, string) (string, error) { return answer, failure },
		Accepted: func() bool { return true },
		Ending:   ending,
	}
	failure = gone
	require.ErrorIs(t, r.Check(context.Background()), gone)
	failure = nil
	require.NoError(t, r.Check(context.Background()))
	failure = gone
	require.NoError(t, r.Check(context.Background()), "the answer is remembered")
	close(ending)
	require.EqualError(t, r.Check(context.Background()), "the proxy drains")
}
