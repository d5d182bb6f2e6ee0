package app_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

// sourceFunc is a source that is one function.
type sourceFunc func(context.Context, source.Sink) error

func (f sourceFunc) Run(ctx context.Context, sink source.Sink) error { return f(ctx, sink) }

func empty(ctx context.Context, sink source.Sink) error {
	sink(source.Event{Synced: true})
	<-ctx.Done()
	return nil
}

func newPipeline(t *testing.T, s sourceFunc) (*app.Pipeline, *http.Client, string) {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return l
	}
	settings, err := config.FromEnv(func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	monitoring := listen()
	p := app.New(app.Options{
		Source: s, Config: settings, Mesh: model.DefaultMesh(), XDS: listen(), Monitoring: monitoring,
		Log: slog.New(slog.DiscardHandler), Version: "test",
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return p, client, "http://" + monitoring.Addr().String()
}

func TestMain(m *testing.M) { leak.Main(m) }

func TestAPipelineIsReadyWithItsFirstStateAndLeavesNothingBehind(t *testing.T) {
	p, client, url := newPipeline(t, empty)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()

	settle, stop := context.WithTimeout(ctx, 3*time.Minute)
	defer stop()
	require.NoError(t, p.Settle(settle))
	require.Equal(t, uint64(1), p.Snapshot().Generation)
	resp, err := client.Get(url + "/ready")
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)

	cancel()
	require.NoError(t, <-done)
	_, err = client.Get(url + "/ready")
	require.Error(t, err, "its listeners are closed")
}

func TestAPipelineThatIsStoppedAtOnceDidNotFail(t *testing.T) {
	for range 20 {
		p, _, _ := newPipeline(t, empty)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.NoError(t, p.Run(ctx))
	}
}

func TestAPipelineEndsWithItsSource(t *testing.T) {
	p, _, _ := newPipeline(t, func(context.Context, source.Sink) error { return io.ErrUnexpectedEOF })
	require.ErrorIs(t, p.Run(context.Background()), io.ErrUnexpectedEOF)
}
