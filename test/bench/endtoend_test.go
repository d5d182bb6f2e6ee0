package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
)

// replicas is how many proxies of each of the 40 classes are connected.
const replicas = 5

// patience is how long anything may take before the benchmark fails.
const patience = 5 * time.Minute

// BenchmarkEndToEnd is a change until the last of 200 proxies, each on a connection of its own, has
// acknowledged it: all stages with gRPC, without debounce. Client and server share the process and
// its cores.
func BenchmarkEndToEnd(b *testing.B) {
	atEachSize(b, func(b *testing.B, services int) {
		p := startPipeline(b, services)
		variant := 0
		eachEdit(b, edits, p.restore, func(b *testing.B, e editOf) {
			var last fanout.Record
			for b.Loop() {
				variant++
				last = p.push(e.edit(variant))
			}
			require.NotZero(b, last.Proxies)
			require.NotZero(b, last.Bytes)
			b.ReportMetric(float64(last.Proxies), "proxies/op")
			b.ReportMetric(float64(last.Bytes), "sent-B/op")
		})
	})
}

// pipeline is the whole control plane with its proxies.
type pipeline struct {
	tb       testing.TB
	ctx      context.Context
	source   *memory.Source
	pipeline *app.Pipeline
}

func startPipeline(tb testing.TB, services int) *pipeline {
	ctx, cancel := context.WithCancel(context.Background())
	p := &pipeline{tb: tb, ctx: ctx, source: memory.New(meshgen.Mesh{Services: services}.Objects()...)}
	xds, monitoring := listen(tb), listen(tb)
	p.pipeline = app.New(app.Options{
		Source: p.source,
		Config: config.Config{EDSDebounce: true, MaxRequestsPerSecond: 1e6, MaxRecvMsgSize: 16 << 20},
		Mesh:   model.DefaultMesh(),
		XDS:    xds, Monitoring: monitoring, Log: slog.New(slog.DiscardHandler), Version: "bench",
	})
	done := make(chan error, 1)
	go func() { done <- p.pipeline.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		require.NoError(tb, <-done)
	})
	p.settle()
	for _, proxy := range meshgen.Proxies() {
		for n := range replicas {
			connectEnvoy(tb, xds.Addr().String(), proxy, n)
		}
	}
	p.settle()
	p.push(editEndpoint(0)) // the first generation also tells what was found wrong when the classes were compiled
	return p
}

func listen(tb testing.TB) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	return l
}

// settle waits until all proxies have all that they should.
func (p *pipeline) settle() {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p.tb, p.pipeline.Settle(ctx))
}

// push makes one change and waits until all proxies that it touches have acknowledged it.
func (p *pipeline) push(c source.Change) fanout.Record {
	c.ObservedAt = time.Now()
	p.source.Send(p.ctx, c)
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case r := <-p.pipeline.Pushes():
			if r.Observed.Equal(c.ObservedAt) {
				return r
			}
		case <-late.C:
			p.tb.Fatalf("%s: not acknowledged after %s, or it touches no proxy", c.Key, patience)
		}
	}
}

// restore makes changes that may be none, and waits until they are over.
func (p *pipeline) restore(changes ...source.Change) {
	for _, c := range changes {
		c.ObservedAt = time.Now()
		p.source.Send(p.ctx, c)
	}
	p.settle()
}

// nodeOf is a replica of a proxy: another pod of the same labels, of which there is no record, so
// that its class is the same.
func nodeOf(p meshgen.Proxy, replica int) (id string, metadata map[string]any) {
	kind := "sidecar"
	labels := map[string]any{}
	for k, v := range p.Labels {
		labels[k] = v
	}
	metadata = map[string]any{"NAMESPACE": p.Namespace, "LABELS": labels, "INTERCEPTION_MODE": "NONE"}
	if p.Gateway {
		kind = "router"
	} else {
		metadata["HTTP_PROXY_PORT"] = fmt.Sprint(p.HTTPProxyPort)
	}
	return fmt.Sprintf("%s~%s~%s-%d.%s~%[5]s.svc.cluster.local", kind, p.Address, p.Pod, replica, p.Namespace), metadata
}
