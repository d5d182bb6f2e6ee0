package envoy

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/agent/settings"
)

// TestMain makes this binary an Envoy that does as it is told, when it is started as one.
func TestMain(m *testing.M) {
	switch os.Getenv("LATEEN_TEST_ENVOY") {
	case "":
		os.Exit(m.Run())
	case "exit 3":
		os.Exit(3)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	}
	term := make(chan os.Signal, 1)
	if os.Getenv("LATEEN_TEST_ENVOY") != "deaf" {
		signal.Notify(term, syscall.SIGTERM)
	}
	_, _ = fmt.Fprintln(os.Stdout, "up")
	<-term
	_, _ = fmt.Fprintln(os.Stdout, "terminated")
	os.Exit(0)
}

// output is what an Envoy writes; up is closed when it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	up   chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if bytes.Contains(p, []byte("up")) {
		close(o.up)
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// rig runs a supervisor with an Envoy of the test, whose admin interface is a handler.
type rig struct {
	*Supervisor
	out    *output
	log    *output
	cancel context.CancelFunc
	ended  chan error
	asked  chan string           // requests to the admin interface
	waits  chan time.Duration    // what the supervisor wants to wait for
	passed chan time.Time        // lets a wait pass
	answer func(q string) string // the admin interface's; fails when it is empty
}

func run(t *testing.T, how string, change func(*Options, *rig)) *rig {
	t.Helper()
	t.Setenv("LATEEN_TEST_ENVOY", how)
	r := &rig{
		out:    &output{up: make(chan struct{})},
		log:    &output{up: make(chan struct{})},
		ended:  make(chan error, 1),
		asked:  make(chan string, 100),
		waits:  make(chan time.Duration, 100),
		passed: make(chan time.Time),
		answer: func(string) string { return "OK\n" },
	}
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "admin"))
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.asked <- q.Method + " " + q.URL.String()
		if a := r.answer(q.URL.String()); a != "" {
			_, _ = w.Write([]byte(a))
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	o := Options{
		Binary: os.Args[0], Stdout: r.out, Stderr: r.out, InboundOnly: true, TerminationDrain: 7 * time.Second,
		Admin: NewAdmin(listener.Addr().String()),
		Log:   slog.New(slog.NewTextHandler(r.log, nil)),
		After: func(d time.Duration) <-chan time.Time { r.waits <- d; return r.passed },
	}
	if change != nil {
		change(&o, r)
	}
	r.Supervisor = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	t.Cleanup(cancel)
	go func() { r.ended <- r.Run(ctx) }()
	return r
}

func TestTheEndOfEnvoyIsTheEnd(t *testing.T) {
	r := run(t, "exit 3", nil)
	require.ErrorContains(t, <-r.ended, "the Envoy ended: exit status 3")
}

func TestAnEnvoyThatIsMissing(t *testing.T) {
	r := run(t, "", func(o *Options, _ *rig) { o.Binary = "/nowhere/envoy" })
	require.ErrorContains(t, <-r.ended, "start of Envoy: fork/exec /nowhere/envoy: no such file or directory")
}

func TestSIGTERMDrainsForTheTerminationDrainDuration(t *testing.T) {
	r := run(t, "obey", nil)
	<-r.out.up
	r.cancel()
	require.Equal(t, "POST /drain_listeners?inboundonly&graceful", <-r.asked)
	require.Equal(t, 7*time.Second, <-r.waits)
	require.Empty(t, r.ended)
	r.passed <- time.Time{}
	require.NoError(t, <-r.ended)
	require.Contains(t, r.out.String(), "terminated", "Envoy writes its logs out before it ends")
}

func TestAGatewayDrainsAllListeners(t *testing.T) {
	r := run(t, "obey", func(o *Options, _ *rig) { o.InboundOnly = false })
	<-r.out.up
	r.cancel()
	require.Equal(t, "POST /drain_listeners?graceful", <-r.asked)
	r.passed <- time.Time{}
	require.NoError(t, <-r.ended)
}

func TestADrainUntilNobodyIsConnected(t *testing.T) {
	answers := make(chan string, 10)
	r := run(t, "obey", func(o *Options, r *rig) {
		o.UntilIdle, o.MinimumDrain, o.OwnPorts = true, 3*time.Second, []uint16{15021}
		r.answer = func(string) string { return <-answers }
	})
	<-r.out.up
	r.cancel()
	answers <- "OK\n"
	require.Equal(t, "POST /drain_listeners?inboundonly&graceful", <-r.asked)
	require.Equal(t, 3*time.Second, <-r.waits)
	for _, stats := range []string{
		"listener.0.0.0.0_15006.downstream_cx_active: 2\n",
		"", // one failure is not the end
		"listener.0.0.0.0_15006.downstream_cx_active: 1\n",
	} {
		answers <- stats
		r.passed <- time.Time{}
		require.Equal(t, "GET /stats?usedonly&filter=downstream_cx_active$", <-r.asked)
		require.Equal(t, checkEvery, <-r.waits)
	}
	answers <- "listener.0.0.0.0_15006.downstream_cx_active: 0\nlistener.0.0.0.0_15021.downstream_cx_active: 1\n"
	r.passed <- time.Time{}
	require.NoError(t, <-r.ended)
}

func TestADrainEndsWhenEnvoyDoesNotAnswer(t *testing.T) {
	r := run(t, "obey", func(o *Options, r *rig) {
		o.UntilIdle = true
		r.answer = func(string) string { return "" }
	})
	<-r.out.up
	r.cancel()
	for range maxFailedChecks {
		r.passed <- time.Time{}
	}
	require.NoError(t, <-r.ended)
	require.Contains(t, r.log.String(), "Envoy does not drain")
	require.Contains(t, r.log.String(), "Envoy does not say who is connected")
}

func TestQuitWaitsForNothing(t *testing.T) {
	r := run(t, "obey", nil)
	<-r.out.up
	r.Quit()
	r.Quit()
	require.NoError(t, <-r.ended)
	require.Empty(t, r.asked)
	require.Contains(t, r.out.String(), "terminated")
}

func TestQuitCutsADrainShort(t *testing.T) {
	r := run(t, "obey", nil)
	<-r.out.up
	r.cancel()
	require.Equal(t, 7*time.Second, <-r.waits)
	r.Quit()
	require.NoError(t, <-r.ended)
}

func TestADrainBeforeSIGTERMIsNotRepeated(t *testing.T) {
	r := run(t, "obey", nil)
	<-r.out.up
	require.NoError(t, r.DrainNow(context.Background()))
	require.Equal(t, "POST /drain_listeners?inboundonly&graceful&skip_exit", <-r.asked)
	require.Empty(t, r.ended, "Envoy goes on serving")
	r.cancel()
	require.NoError(t, <-r.ended)
	require.Empty(t, r.asked)
}

func TestAnEnvoyThatDoesNotEndIsKilled(t *testing.T) {
	r := run(t, "deaf", nil)
	<-r.out.up
	r.Quit()
	require.Equal(t, killAfter, <-r.waits)
	r.passed <- time.Time{}
	require.NoError(t, <-r.ended)
	require.NotContains(t, r.out.String(), "terminated")
}

func TestConnectionsOfClientsCount(t *testing.T) {
	require.Equal(t, 5, connections(`cluster.x.upstream_cx_active: 9
http.inbound_0.0.0.0_9080;.downstream_cx_active: 9
listener.0.0.0.0_15006.downstream_cx_active: 3
listener.0.0.0.0_15006.worker_0.downstream_cx_active: 3
listener.[__]_15001.downstream_cx_active: 2
listener.[__]_15021.downstream_cx_active: 1
listener.0.0.0.0_15090.downstream_cx_active: 1
listener.admin.downstream_cx_active: 1
listener.admin.main_thread.downstream_cx_active: 1
listener.0.0.0.0_80.downstream_cx_active: many
listener.0.0.0.0_80.downstream_cx_active
`, []uint16{15021, 15090}))
}

func TestArguments(t *testing.T) {
	s, err := settings.Read(settings.Sources{
		Args: []string{"sidecar", "--proxyLogLevel=info,misc:error,upstream:debug", "--proxyComponentLogLevel=x:info"},
		Environ: []string{
			"POD_NAME=a", "POD_NAMESPACE=b", "INSTANCE_IP=fd00::1", "ISTIO_BOOTSTRAP_OVERRIDE=o.json",
			`PROXY_CONFIG={"concurrency":2,"drainDuration":"90s","fileFlushInterval":"0.5s","fileFlushMinSizeKb":8}`,
		},
		Files: fstest.MapFS{"o.json": {Data: []byte(`{"a": 1}`)}},
	})
	require.NoError(t, err)
	require.Equal(t, []string{
		"--config-path", "./etc/istio/proxy/envoy-rev.json", "--drain-time-s", "90", "--drain-strategy", "immediate",
		"--local-address-ip-version", "v6", "--file-flush-interval-msec", "500", "--disable-hot-restart",
		"--file-flush-min-size-kb", "8", "--log-level", "info", "--component-log-level", "misc:error,upstream:debug",
		"--skip-deprecated-logs", "--config-yaml", `{"a":1}`, "--concurrency", "2",
	}, Arguments(s))
}
