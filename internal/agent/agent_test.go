package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/agent/envoy"
)

// TestMain makes this binary an Envoy that runs until it is told to end.
func TestMain(m *testing.M) {
	if os.Getenv("LATEEN_TEST_ENVOY") != "" {
		select {}
	}
	os.Exit(m.Run())
}

func supervisor(t *testing.T) *envoy.Supervisor {
	t.Setenv("LATEEN_TEST_ENVOY", "1")
	return envoy.New(envoy.Options{
		Binary: os.Args[0], Stdout: io.Discard, Stderr: io.Discard,
		Admin: envoy.NewAdmin("nowhere"), Log: slog.New(slog.DiscardHandler),
	})
}

func TestAServiceThatEndsEndsTheAgent(t *testing.T) {
	var served bool
	err := runWith(context.Background(), []service{
		{"xDS", func(context.Context) error { return errors.New("address in use") }},
		{"SDS", func(ctx context.Context) error { <-ctx.Done(); served = true; return nil }},
	}, supervisor(t))
	require.EqualError(t, err, "xDS ended: address in use")
	require.True(t, served)
}

func TestServicesOutliveEnvoy(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // as SIGTERM
	serving := make(chan struct{})
	s := supervisor(t)
	err := runWith(ctx, []service{{"SDS", func(ctx context.Context) error {
		require.NoError(t, ctx.Err(), "Envoy drains, and may ask")
		close(serving)
		<-ctx.Done()
		return nil
	}}}, s)
	require.NoError(t, err)
	<-serving
}
