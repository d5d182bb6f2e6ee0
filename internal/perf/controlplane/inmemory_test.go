package controlplane

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/local/link"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

// asChild as the first argument makes this test binary play a control plane: it says how many
// objects it was delivered, and ends when it is delivered one that is called "poison".
const asChild = "as-child"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asChild {
		if err := play(); err != nil {
			fmt.Fprintln(os.Stderr, "the child's last words:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == asServer {
		if err := listen(os.Args[2]); err != nil {
			_, _ = fmt.Fprintln(os.Stdout, "the server's last words:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leak.Main(m)
}

func play() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	line, err := link.Open(os.NewFile(LinkDescriptor, "link"), local.NewTokens())
	if err != nil {
		return err
	}
	xds, err := net.Listen("tcp", os.Args[3])
	if err != nil {
		return err
	}
	monitoring, err := net.Listen("tcp", os.Args[5])
	if err != nil {
		return err
	}
	var objects atomic.Int64
	go func() {
		_ = http.Serve(monitoring, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "# TYPE go_memstats_mallocs_total counter\ngo_memstats_mallocs_total %d\n",
				objects.Load())
		}))
	}()
	profiles, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(profiles, Profiles()) }()
	news := ChildStatus{XDS: xds.Addr().String(), Monitoring: monitoring.Addr().String(),
		Profiles: profiles.Addr().String()}
	if err := line.Send(news); err != nil {
		return err
	}
	poisoned := make(chan struct{})
	go func() {
		_ = line.Run(ctx, func(e source.Event) {
			for _, c := range e.Changes {
				if c.Key.Name == "poison" {
					close(poisoned)
				}
				objects.Add(1)
			}
			if news.Open = e.Synced; e.Synced {
				_ = line.Send(news)
			}
		})
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-poisoned:
		return fmt.Errorf("poisoned")
	}
}

func namespace(name string) source.Change {
	return source.Change{Key: source.Key{Kind: kinds.Namespace, Name: name},
		Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}}
}

func started(t *testing.T) *InMemory {
	self, err := os.Executable()
	require.NoError(t, err)
	m := NewInMemory([]string{self, asChild}, slog.New(slog.DiscardHandler))
	require.NoError(t, m.Start(t.Context(), []source.Change{namespace("a"), namespace("b")}))
	return m
}

// holds waits until the child was delivered so many objects, those of its predecessors included.
func holds(t *testing.T, m *InMemory, objects int) {
	t.Helper()
	require.Eventually(t, func() bool {
		u, err := m.Usage(t.Context())
		return err == nil && u.Allocations == uint64(objects)
	}, 3*time.Minute, time.Millisecond)
}

func TestTheNextProcessIsTheSameControlPlane(t *testing.T) {
	m := started(t)
	defer func() { require.NoError(t, m.Close(context.WithoutCancel(t.Context()))) }()
	require.NoError(t, m.Apply(t.Context(), namespace("c")))
	holds(t, m, 3)
	at := m.Address()
	stop, err := m.Profile(t.Context())
	require.NoError(t, err)
	profile, err := stop()
	require.NoError(t, err)
	require.NotEmpty(t, profile)
	require.NoError(t, m.Collect(t.Context()))

	require.NoError(t, m.Restart(t.Context()))
	require.Equal(t, at, m.Address(), "proxies find it where it was")
	holds(t, m, 3+3)
	u, err := m.Usage(t.Context())
	require.NoError(t, err)
	require.Positive(t, u.Peak)
	require.NoError(t, m.Err())
}

func TestAControlPlaneThatDiesIsTold(t *testing.T) {
	m := started(t)
	require.NoError(t, m.Apply(t.Context(), namespace("poison")))
	<-m.Done()
	require.ErrorContains(t, m.Err(), "the child's last words: poisoned")
	require.Error(t, m.Apply(t.Context(), namespace("d")))
	require.Error(t, m.Close(t.Context()))
}

func TestWhatCannotBeStartedIsTold(t *testing.T) {
	m := NewInMemory([]string{"/no/such/file"}, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, m.Start(t.Context(), nil), "/no/such/file")
	require.NoError(t, m.Close(t.Context()))
}
