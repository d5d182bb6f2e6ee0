package livemesh

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/compliance"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/source/dir"
	"github.com/lateen-mesh/lateen/internal/source/mirror"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

// patience is how long anything may take that should happen in a moment; on a busy machine moments
// are long.
const patience = 3 * time.Minute

// Options change how a mesh runs; the zero value is right for most tests.
type Options struct {
	// FileSettle is how long a file must stand still before it is read: 5 ms. Tests of files that
	// are being written want more.
	FileSettle time.Duration
	// Bootstrap is YAML that is merged over the bootstrap of each Envoy (--config-yaml).
	Bootstrap string
	// Unready has endpoints sent that are not ready, marked as such
	// (PILOT_SEND_UNHEALTHY_ENDPOINTS).
	Unready bool
	// Sessions has persistent sessions (PILOT_ENABLE_PERSISTENT_SESSION_FILTER).
	Sessions bool
	// Compliance is what connections in TLS keep (COMPLIANCE_POLICY).
	Compliance compliance.Policy
	// Metrics has proxies keep Istio's standard metrics.
	Metrics bool
	// ConnectionAge is the age at which connections of proxies end; 0 means never.
	ConnectionAge time.Duration
	// KeyNetworks are networks from which keys may be fetched though they are not public
	// (LATEEN_JWKS_PRIVATE_NETWORKS).
	KeyNetworks []netip.Prefix
	// KeyRefresh is how long fetched keys are good; 0 stands for the default.
	KeyRefresh time.Duration
}

// Mesh is a running mesh, bound to the test that uses it.
type Mesh struct {
	*shared
	t testing.TB
}

// shared is what the Meshes of all tests that use one mesh have in common.
type shared struct {
	dir        string
	monitoring string
	tap        *tap
	xds        *cuttable
	pipeline   *app.Pipeline

	mu      sync.Mutex
	markers int
	clients []io.Closer
	pids    map[int]noted
}

// Start runs a mesh from manifests, a txtar archive of files, until the test ends. It returns once
// all pods are ready and every proxy has accepted everything.
func Start(t testing.TB, files string) *Mesh {
	t.Helper()
	return StartWith(t, Options{}, files)
}

// StartWith is Start with options.
func StartWith(t testing.TB, o Options, files string) *Mesh {
	t.Helper()
	if o.FileSettle == 0 {
		o.FileSettle = 5 * time.Millisecond
	}
	m := &Mesh{t: t, shared: &shared{pids: map[int]noted{}, dir: filepath.Join(t.TempDir(), "manifests")}}
	require.NoError(t, os.Mkdir(m.dir, 0o755))
	m.writeAll(files)
	m.assemble(o)
	m.run()
	m.Settle()
	return m
}

// assemble puts the mesh together as `lateen up` does.
func (m *Mesh) assemble(o Options) {
	t := m.t
	t.Helper()
	envoy := envoyWith(t, o.Bootstrap)
	self, err := os.Executable()
	require.NoError(t, err)
	state, logs := t.TempDir(), newLog(t)
	xds, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m.xds = &cuttable{Listener: xds}
	monitoring, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m.monitoring = "http://" + monitoring.Addr().String()
	tokens := local.NewTokens()
	manifests := dir.New(dir.Options{
		Path:     m.dir,
		StateDir: filepath.Join(state, "manifests"),
		Logger:   logs,
		Settle:   o.FileSettle,
		Rescan:   time.Second,
	})
	runtime, err := local.New(mirror.New(manifests), local.Options{
		Envoy: envoy, Self: self, StateDir: filepath.Join(state, "pods"), WorkDir: m.dir, Environ: os.Environ(),
		XDS: netip.MustParseAddrPort(xds.Addr().String()), IstioVersion: "1.31.0", Tokens: tokens,
		Settled:  func(ctx context.Context) ([]string, error) { return m.pipeline.Settled(ctx) },
		CoolDown: time.Second, Backoff: 100 * time.Millisecond, Metrics: o.Metrics,
	})
	require.NoError(t, err)
	m.tap = newTap(runtime)
	m.pipeline = app.New(app.Options{
		Source:        m.tap,
		Mesh:          model.DefaultMesh(),
		XDS:           m.xds,
		Monitoring:    monitoring,
		Authenticator: app.TokenAuthenticator{Lookup: tokens.Account},
		Log:           logs,
		Version:       "test",
		ConnectionAge: o.ConnectionAge,
		Config: config.Config{
			DebounceAfter:        5 * time.Millisecond,
			DebounceMax:          time.Second,
			EDSDebounce:          true,
			MaxRequestsPerSecond: 1000,
			SendUnhealthy:        o.Unready,
			Sessions:             o.Sessions,
			Compliance:           o.Compliance,
			KeyNetworks:          o.KeyNetworks,
			KeyRefresh:           o.KeyRefresh,
			HistoryBytes:         32 << 20,
		},
	})
}

// envoyWith is an Envoy that merges text over its bootstrap.
func envoyWith(t testing.TB, text string) string {
	t.Helper()
	binary := realenvoy.Binary(t)
	if text == "" {
		return binary
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bootstrap.yaml"), []byte(text), 0o600))
	script := filepath.Join(dir, "envoy")
	content := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\" --config-yaml \"$(cat '%s')\"\n", binary,
		filepath.Join(dir, "bootstrap.yaml"))
	require.NoError(t, os.WriteFile(script, []byte(content), 0o700))
	return script
}

// run starts the mesh, and ends it with the test: then nothing of it may be left.
func (m *Mesh) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.pipeline.Run(ctx) }()
	m.t.Cleanup(func() {
		m.notePIDs()
		for _, c := range m.clients {
			_ = c.Close()
		}
		cancel()
		require.NoError(m.t, <-ended)
		for pid, p := range m.pids {
			if began(pid) == p.began { // else the number is another process's by now
				require.ErrorIs(m.t, syscall.Kill(pid, 0), syscall.ESRCH, "process %d (%s) outlives the mesh", pid,
					p.name)
			}
		}
	})
}

// With is the mesh for a subtest.
func (m *Mesh) With(t testing.TB) *Mesh { return &Mesh{shared: m.shared, t: t} }

// Run runs a subtest with further files, which are removed after it.
func (m *Mesh) Run(name, files string, test func(t *testing.T, m *Mesh)) {
	parent, ok := m.t.(*testing.T)
	require.True(m.t, ok)
	parent.Run(name, func(t *testing.T) {
		sub := m.With(t)
		if strings.TrimSpace(files) != "" {
			names := sub.writeAll(files)
			t.Cleanup(func() {
				for _, name := range names {
					sub.Delete(name)
				}
			})
		}
		sub.Settle()
		test(t, sub)
	})
}

// noted is a process of the mesh.
type noted struct{ name, began string }

// began is when a process began, as proc_pid_stat(5) has it (starttime, field 22); empty if there
// is none, or nobody tells.
func began(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

func (m *Mesh) notePIDs() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.tap.Snapshot().Pods {
		for _, proc := range p.Processes {
			if proc.PID != 0 {
				m.pids[proc.PID] = noted{p.Name + "/" + proc.Name, began(proc.PID)}
			}
		}
	}
}

func (m *Mesh) closeAtEnd(c io.Closer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clients = append(m.clients, c)
}

// newLog shows the control plane's log of a test that failed.
func newLog(t testing.TB) *slog.Logger {
	b := &tail{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the control plane's last log lines:\n%s", b)
		}
	})
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// tail keeps the last lines that were written; older ones are dropped.
type tail struct {
	mu    sync.Mutex
	lines []string
}

const tailLines = 40

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(p))
	b.lines = slices.Delete(b.lines, 0, max(0, len(b.lines)-tailLines))
	return len(p), nil
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "")
}
