package inspect

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
)

// claimedWindow is how many seconds a replica of these tests has run, as its metrics say.
const claimedWindow = 1000.0

// claims are samples, by their names in the text format.
type claims map[string]float64

// busy are the claims of a replica that has used a share of its CPUs for claimedWindow, and spent
// so many seconds of each second on events and on pushes. These are what a test cannot bring about
// on a machine that has other work; all else is as the control plane counts it.
func busy(cpu, events, pushes float64) claims {
	c := claims{
		"process_start_time_seconds":         float64(time.Now().Unix()) - claimedWindow,
		"process_cpu_seconds_total":          claimedWindow * cpu * float64(runtime.GOMAXPROCS(0)),
		"pilot_pushcontext_init_seconds_sum": claimedWindow * events,
		"lateen_push_busy_seconds_total":     claimedWindow * pushes,
	}
	return c.arrive(100, 0.1)
}

// arrive are 100 changes, of which so many take less than a second; all take a mean time.
func (c claims) arrive(soon, mean float64) claims {
	c[`pilot_proxy_convergence_time_bucket{le="1"}`] = soon
	c[`pilot_proxy_convergence_time_bucket{le="3"}`] = 100
	c[`pilot_proxy_convergence_time_bucket{le="+Inf"}`] = 100
	c["pilot_proxy_convergence_time_sum"], c["pilot_proxy_convergence_time_count"] = 100*mean, 100
	return c
}

// late are changes that arrive after more than a second.
func (c claims) late() claims { return c.arrive(10, 2) }

// claiming serves the pages of a control plane with other samples in its metrics.
func claiming(t *testing.T, address string, c claims) remote.Endpoint {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := http.Get("http://" + address + r.URL.RequestURI())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.WriteHeader(answer.StatusCode)
		if r.URL.Path != "/metrics" {
			_, _ = w.Write(body)
			return
		}
		for line := range strings.Lines(string(body)) {
			if _, claimed := c[line[:max(strings.LastIndex(line, " "), 0)]]; !claimed {
				_, _ = io.WriteString(w, line)
			}
		}
		for name, value := range c {
			_, _ = fmt.Fprintf(w, "%s %g\n", name, value)
		}
	}))
	t.Cleanup(func() { server.Close(); http.DefaultClient.CloseIdleConnections() })
	return remote.AtAddress(server.Listener.Addr().String())
}

// judged is what the advisor says of replicas.
func judged(t *testing.T, replicas ...remote.Endpoint) advise.Report {
	t.Helper()
	f, facts := adviseFlags{sinceStart: true}, &advise.Facts{}
	_, err := f.live(t.Context(), console.Plain(io.Discard), replicas, facts)
	require.NoError(t, err)
	model, err := advise.StoredModel()
	require.NoError(t, err)
	return advise.Advise(facts, model)
}

// shopMesh is a control plane of a directory with three services.
func shopMesh(t *testing.T, directory string, settings map[string]string) *adviceMesh {
	t.Helper()
	text := adviceServices("shop", 3, 0)
	require.NoError(t, os.WriteFile(filepath.Join(directory, "shop.yaml"), []byte(text), 0o600))
	return startAdviceMesh(t, directory, settings)
}

// counted is a sum of a control plane's metric.
func (m *adviceMesh) counted(name string) float64 {
	m.t.Helper()
	metrics, errs := remote.ScrapeAll(m.ctx, []remote.Endpoint{remote.AtAddress(m.monitoring)})
	require.NoError(m.t, errs[0])
	return metrics[0].Sum(name)
}

// worked adds a service, and returns how many events the replica works in for it and how many
// clusters it sends.
func (m *adviceMesh) worked(name string) (events, sent float64) {
	m.t.Helper()
	before := m.counted("pilot_inbound_updates")
	m.write(name+".yaml", strings.ReplaceAll(adviceServices("shop", 1, 0), "svc-0", name))
	m.await("a new service", func() bool { return m.clusters(name) == len(m.all) })
	return m.counted("pilot_inbound_updates") - before, float64(m.clusters(name))
}

// TestAdviseScaleOut: pushes fill the CPUs of one replica. With as many as advised each has the
// proxies that were promised, and sends that share of what the one has sent.
func TestAdviseScaleOut(t *testing.T) {
	directory := t.TempDir()
	a := shopMesh(t, directory, nil)
	a.connect("shop", 30, false)
	a.await("all sidecars in sync", func() bool { return a.clusters("svc-0.") == 30 })
	report := judged(t, claiming(t, a.monitoring, busy(1, 0.1, 1.8).late()))
	require.Equal(t, advise.NumProxies, report.Bottleneck.Factor, report.Bottleneck.Why)
	found := findingOf(t, report, "scale-out")
	replicas, proxies := effectOf(t, found, "replicas"), effectOf(t, found, "proxies of a replica")
	cpu := effectOf(t, found, "CPU of a replica")
	require.InDelta(t, 2, replicas.After, 1e-9)
	require.InDelta(t, 30, proxies.Before, 1e-9)
	_, alone := a.worked("one")

	b := startAdviceMesh(t, directory, nil)
	for _, s := range a.all[15:] {
		s.Stop()
	}
	b.connect("shop", 15, false)
	a.all = a.all[:15]
	a.await("the other half is gone", func() bool { return len(a.pipeline.Clients()) == 15 })
	b.await("half of the sidecars in sync", func() bool { return b.clusters("svc-0.") == 15 })
	require.InDelta(t, proxies.After, a.counted("pilot_xds"), 1e-9)
	require.InDelta(t, proxies.After, b.counted("pilot_xds"), 1e-9)
	_, shared := a.worked("two")
	require.InDelta(t, cpu.After/cpu.Before, shared/alone, 0.01)

	half := busy(shared/alone, 0.1, 1.8*shared/alone)
	require.Empty(t, judged(t, claiming(t, a.monitoring, half), claiming(t, b.monitoring, half)).Findings)
}

// TestAdviseScaleUp: events fill the CPUs. A second replica works in all of them too, so the advice
// is more CPUs, and nothing is left to advise with these.
func TestAdviseScaleUp(t *testing.T) {
	directory := t.TempDir()
	a := shopMesh(t, directory, nil)
	a.connect("shop", 10, false)
	a.await("all sidecars in sync", func() bool { return a.clusters("svc-0.") == 10 })
	full := busy(0.97, 1.5, 0.2).late()
	report := judged(t, claiming(t, a.monitoring, full))
	require.Equal(t, advise.RateOfChanges, report.Bottleneck.Factor, report.Bottleneck.Why)
	found := findingOf(t, report, "scale-up")
	cpus, used := effectOf(t, found, "CPUs of a replica"), effectOf(t, found, "CPU of a replica")
	require.InDelta(t, runtime.GOMAXPROCS(0), cpus.Before, 1e-9)
	require.Equal(t, fmt.Sprintf("%.0f", cpus.After), found.Remedy.Values["pilot.resources.requests.cpu"])
	require.Equal(t, "120ms", findingOf(t, report, "debounce").Remedy.Variables["PILOT_DEBOUNCE_AFTER"])

	alone, _ := a.worked("one")
	b := startAdviceMesh(t, directory, nil)
	b.connect("shop", 10, false)
	b.await("all sidecars in sync", func() bool { return b.clusters("svc-0.") == 10 })
	events := b.counted("pilot_inbound_updates")
	shared, _ := a.worked("two")
	b.await("the service at the second replica", func() bool { return b.clusters("two") == 10 })
	require.InDelta(t, alone, shared, 1e-9, "a second replica takes no event away")
	require.InDelta(t, shared, b.counted("pilot_inbound_updates")-events, 1e-9, "it works in each itself")

	more := busy(0.97, 1.5, 0.2)
	more["go_sched_gomaxprocs_threads"] = cpus.After
	report = judged(t, claiming(t, a.monitoring, more))
	require.Empty(t, report.Findings)
	share := report.Signals[1].Evidence[0]
	require.Equal(t, advise.Saturation, report.Signals[1].Signal)
	require.InDelta(t, used.After, share.Value, 0.02)
}

// TestAdviseThrottle: two slots are full and the CPUs idle. The replica with the advised setting
// has the promised slots.
func TestAdviseThrottle(t *testing.T) {
	m := shopMesh(t, t.TempDir(), map[string]string{"PILOT_PUSH_THROTTLE": "2"})
	report := judged(t, claiming(t, m.monitoring, busy(0.1, 0.1, 1.96).late()))
	require.Equal(t, advise.PushSlots, report.Bottleneck.Factor, report.Bottleneck.Why)
	found := findingOf(t, report, "throttle")
	slots, share := effectOf(t, found, "pushes at a time"), effectOf(t, found, "share of push slots in use")
	require.InDelta(t, m.counted("lateen_push_slots"), slots.Before, 1e-9)

	m = shopMesh(t, t.TempDir(), found.Remedy.Variables)
	require.InDelta(t, slots.After, m.counted("lateen_push_slots"), 1e-9)
	report = judged(t, claiming(t, m.monitoring, busy(0.1, 0.1, 1.96)))
	require.Empty(t, report.Findings)
	require.InDelta(t, share.After, report.Signals[1].Evidence[1].Value, 0.01)
}

// TestAdviseMemory: the process has a memory limit of what it uses. With the advised limit it uses
// the share of it that was promised, as the control plane itself says.
func TestAdviseMemory(t *testing.T) {
	m := shopMesh(t, t.TempDir(), nil)
	m.connect("shop", 5, false)
	m.await("all sidecars in sync", func() bool { return m.clusters("svc-0.") == 5 })
	resident := m.counted("process_resident_memory_bytes")
	before := debug.SetMemoryLimit(int64(resident))
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	at := claiming(t, m.monitoring, busy(0.1, 0.1, 0.1))
	report := judged(t, at)
	require.Equal(t, advise.Resources, report.Bottleneck.Factor, report.Bottleneck.Why)
	found := findingOf(t, report, "memory")
	limit, share := effectOf(t, found, "memory limit"), effectOf(t, found, "share of it in use")
	require.Equal(t, fmt.Sprintf("%.0fMi", limit.After/(1<<20)), found.Remedy.Values["pilot.resources.limits.memory"])

	debug.SetMemoryLimit(int64(limit.After))
	require.InEpsilon(t, limit.After, m.counted("go_gc_gomemlimit_bytes"), 0.001)
	report = judged(t, at)
	require.Empty(t, report.Findings)
	require.InDelta(t, share.After, report.Signals[1].Evidence[2].Value, 0.3)
	require.Less(t, report.Signals[1].Evidence[2].Value, 0.9)
}

// TestAdviseRefusals: a sidecar refuses what comes, and the finding counts each refusal. Without
// that sidecar there is nothing to say.
func TestAdviseRefusals(t *testing.T) {
	m := shopMesh(t, t.TempDir(), nil)
	m.connect("shop", 2, false)
	m.await("all sidecars in sync", func() bool { return m.clusters("svc-0.") == 2 })
	require.Empty(t, m.advised().Findings)
	m.fleet.Start(sidecar.Identity{
		Namespace: "shop", Pod: "refuses", Address: netip.AddrFrom4([4]byte{10, 9, 200, 1}),
	}, sidecar.Faults{NackShare: 1})
	for m.counted("pilot_total_xds_rejects") == 0 {
		require.NoError(t, m.ctx.Err())
		runtime.Gosched()
	}
	found := findingOf(t, m.advised(), "config-refused")
	require.Equal(t, advise.Errors, found.Signal)
	require.GreaterOrEqual(t, found.Evidence[0].Value, 1.0)
	require.LessOrEqual(t, found.Evidence[0].Value, m.counted("pilot_total_xds_rejects"))
}
