package sidecar_test

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
)

// planeEnv tells a process of this test binary to be a control plane with that many services,
// instead of testing.
const planeEnv = "LATEEN_TEST_PLANE_SERVICES"

func TestMain(m *testing.M) {
	if services, err := strconv.Atoi(os.Getenv(planeEnv)); err == nil {
		bePlane(services)
		return
	}
	leak.Main(m)
}

// patience is how long anything may take that should happen in a moment.
const patience = 2 * time.Minute

// plane is a control plane with a mesh.
type plane struct {
	tb         testing.TB
	pipeline   *app.Pipeline
	source     *memory.Source
	address    string
	monitoring string // the address of its metrics
	stop       func()
}

// startPlane serves a mesh at an address; an empty one is chosen.
func startPlane(tb testing.TB, services int, address string) *plane {
	if address == "" {
		address = "127.0.0.1:0"
	}
	listen := func(address string) net.Listener {
		l, err := net.Listen("tcp", address)
		require.NoError(tb, err)
		return l
	}
	p := &plane{tb: tb, source: memory.New(meshgen.Mesh{Services: services}.Objects()...)}
	xds, monitoring := listen(address), listen("127.0.0.1:0")
	p.address, p.monitoring = xds.Addr().String(), monitoring.Addr().String()
	p.pipeline = app.New(app.Options{
		Source: p.source, Config: config.Config{EDSDebounce: true, MaxRequestsPerSecond: 1e6,
			MaxRecvMsgSize: 16 << 20}, Mesh: model.DefaultMesh(),
		XDS: xds, Monitoring: monitoring, Log: slog.New(slog.DiscardHandler), Version: "test",
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.pipeline.Run(ctx) }()
	stopped := false
	p.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(tb, <-done)
		}
	}
	tb.Cleanup(p.stop)
	p.settle()
	return p
}

// held is an address at which only who is told of it listens.
func held(tb testing.TB) string {
	h, err := port.Reserve()
	require.NoError(tb, err)
	tb.Cleanup(h.Release)
	return h.Address
}

func (p *plane) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(p.tb, p.pipeline.Settle(ctx))
}

func (p *plane) send(c source.Change) {
	c.ObservedAt = time.Now()
	p.source.Send(context.Background(), c)
}

// identities are those of n pods of a mesh.
func identities(n int) []sidecar.Identity {
	proxies := meshgen.Proxies()
	var all []sidecar.Identity
	for i := range n {
		p := proxies[i%len(proxies)]
		all = append(all, sidecar.Identity{
			Namespace: p.Namespace,
			Pod:       p.Pod,
			Address:   netip.MustParseAddr(p.Address),
			Labels:    p.Labels,
			Router:    p.Gateway,
		})
	}
	return all
}

// newFleet is a fleet that is patient, unless it is told not to be: a busy machine may keep it
// waiting for longer than an Envoy waits.
func newFleet(tb testing.TB, o sidecar.Options) *sidecar.Fleet {
	if o.FetchTimeout == 0 {
		o.FetchTimeout = patience
	}
	f, err := sidecar.New(o)
	require.NoError(tb, err)
	tb.Cleanup(f.Close)
	return f
}

func await(tb testing.TB, f *sidecar.Fleet, what string, condition func(sidecar.Stats) bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f.Await(ctx, condition); err != nil {
		tb.Fatalf("waited in vain for %s: %+v", what, f.Stats())
	}
}

func allSynced(s sidecar.Stats) bool { return s.Synced == s.Started }

func logTo(tb testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(tb.Output(), nil)) }
