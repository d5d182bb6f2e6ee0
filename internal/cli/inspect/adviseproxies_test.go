package inspect

import (
	"io"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/observe/advise/collect"
	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
)

// manyServices are more than what a stream and its connection hold for a sidecar that does not
// read: 600 kB of clusters, endpoints and virtual hosts, which leave in one burst.
const manyServices = 600

// misbehaving are connected sidecars of the namespace "shop", by name, in a fleet of their own.
func (m *adviceMesh) misbehaving(all map[string]sidecar.Faults) *sidecar.Fleet {
	m.t.Helper()
	fleet, err := sidecar.New(sidecar.Options{Targets: []string{m.xds}, Loops: 1, Window: 64 << 10})
	require.NoError(m.t, err)
	m.t.Cleanup(fleet.Close)
	before := len(m.pipeline.Clients())
	for name, faults := range all {
		fleet.Start(sidecar.Identity{
			Namespace: "shop", Pod: name, Address: netip.AddrFrom4([4]byte{10, 9, 201, byte(len(name))}),
		}, faults)
	}
	m.until("they are connected", func() bool { return len(m.pipeline.Clients()) == before+len(all) })
	return fleet
}

// until waits for something that does not need all sidecars to be in sync, as await does.
func (m *adviceMesh) until(what string, holds func() bool) {
	m.t.Helper()
	for !holds() {
		require.NoError(m.t, m.ctx.Err(), what)
		runtime.Gosched()
	}
}

// writeMany adds services, whose names have a prefix, to the namespace of the sidecars.
func (m *adviceMesh) writeMany(prefix string) {
	m.write(prefix+".yaml", strings.ReplaceAll(adviceServices("shop", manyServices, 0), "svc-", prefix+"-"))
}

// advisedOf is what is advised about the time of an action alone.
func (m *adviceMesh) advisedOf(act func()) advise.Report {
	m.t.Helper()
	replicas := []remote.Endpoint{remote.AtAddress(m.monitoring)}
	before, errs := remote.ScrapeAll(m.ctx, replicas)
	require.NoError(m.t, errs[0])
	act()
	f, facts := adviseFlags{sinceStart: true}, &advise.Facts{}
	_, err := f.live(m.ctx, console.Plain(io.Discard), replicas, facts)
	require.NoError(m.t, err)
	after, errs := remote.ScrapeAll(m.ctx, replicas)
	require.NoError(m.t, errs[0])
	facts.Replicas = []advise.Replica{collect.ReplicaOf("replica", collect.Window{
		Before: before[0], After: after[0], Seconds: claimedWindow, End: time.Now(),
	})}
	model, err := advise.StoredModel()
	require.NoError(m.t, err)
	return advise.Advise(facts, model)
}

// signalOf is the value of a metric in a signal's evidence.
func signalOf(t *testing.T, r advise.Report, signal advise.Signal, metric string) float64 {
	t.Helper()
	for _, s := range r.Signals {
		for _, e := range s.Evidence {
			if s.Signal == signal && e.Metric == metric {
				return e.Value
			}
		}
	}
	require.Fail(t, "no such evidence", "%s of %s: %+v", metric, signal, r.Signals)
	return 0
}

// TestAdviseWriteTimeouts: a sidecar stops reading, and its stream is ended. The finding counts
// that. While all read there are as few as was promised, and there is nothing to advise.
func TestAdviseWriteTimeouts(t *testing.T) {
	const counter = "pilot_xds_write_timeout"
	m := shopMesh(t, t.TempDir(), map[string]string{"PILOT_XDS_SEND_TIMEOUT": "5s"})
	m.connect("shop", 2, false)
	m.await("all sidecars in sync", func() bool { return m.clusters("svc-0.") == 2 })
	require.Empty(t, m.advised().Findings)

	fleet := m.misbehaving(map[string]sidecar.Faults{"stops": {StopsReading: true}})
	require.NoError(t, fleet.Await(m.ctx, func(s sidecar.Stats) bool { return s.Synced == 1 }))
	m.writeMany("more")
	m.until("the stream is ended", func() bool { return m.counted(counter) > 0 })
	found := findingOf(t, m.advised(), "write-timeouts")
	require.Equal(t, advise.Errors, found.Signal)
	promised := effectOf(t, found, counter)
	require.InDelta(t, m.counted(counter), promised.Before, 1e-9)

	fleet.Close() // and with another proxy in its place, which reads:
	m.connect("shop", 1, false)
	report := m.advisedOf(func() {
		m.writeMany("other")
		m.await("as many again at all", func() bool { return m.clusters("other-") == manyServices*len(m.all) })
	})
	require.Empty(t, report.Findings)
	require.InDelta(t, promised.After, signalOf(t, report, advise.Errors, counter), 1e-9)
}

// TestAdviseSlowProxies: one sidecar reads slowly, so that changes are late, and one does not
// answer, while the control plane is idle. lateen status names the one that does not answer, and
// without these two the promised number is left.
func TestAdviseSlowProxies(t *testing.T) {
	const stale = "lateen_stale_proxies"
	m := shopMesh(t, t.TempDir(), nil)
	m.connect("shop", 2, false)
	m.await("all sidecars in sync", func() bool { return m.clusters("svc-0.") == 2 })
	fleet := m.misbehaving(map[string]sidecar.Faults{
		"reads-slowly": {ReadRate: 60 << 10}, "is-silent": {AckDelay: time.Hour},
	})
	m.writeMany("more")
	idle := claims{
		"process_start_time_seconds": float64(time.Now().Unix()) - claimedWindow,
		"process_cpu_seconds_total":  claimedWindow * 0.1 * float64(runtime.GOMAXPROCS(0)),
	}
	at := claiming(t, m.real, idle)
	var report advise.Report
	m.until("changes were late, and one has not answered for long", func() bool {
		report = judged(t, at)
		return report.Bottleneck.Factor == advise.Elsewhere && m.counted(stale) == 1
	})
	report = judged(t, at)
	found := findingOf(t, report, "slow-proxies")
	require.Equal(t, advise.Latency, found.Signal)
	require.Greater(t, found.Evidence[0].Value, found.Evidence[0].Threshold)
	promised := effectOf(t, found, "proxies that have long not acknowledged a change")
	require.InDelta(t, m.counted(stale), promised.Before, 1e-9)
	status, err := statusOf(m.ctx, []remote.Endpoint{at})
	require.NoError(t, err)
	behind := slices.DeleteFunc(status.Proxies, func(p proxyLine) bool {
		for _, r := range p.Resources {
			if r.State != page.Synced {
				return false
			}
		}
		return true
	})
	require.True(t, slices.ContainsFunc(behind, func(p proxyLine) bool { return p.ProxyID == "is-silent.shop" }))

	fleet.Close()
	m.until("they are gone", func() bool { return len(m.pipeline.Clients()) == len(m.all) })
	report = m.advisedOf(func() {
		m.writeMany("other")
		m.await("as many again at all", func() bool { return m.clusters("other-") == manyServices*len(m.all) })
	})
	require.Empty(t, report.Findings)
	require.InDelta(t, promised.After, m.counted(stale), 1e-9)
}
