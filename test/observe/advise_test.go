package observe

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/observe/advise/collect"
)

// TestAdvisorReadsPrometheus has a real Prometheus scrape a control plane with ten sidecars while a
// route changes, until the advisor has each kind of metric of it: counters, gauges, histograms.
func TestAdvisorReadsPrometheus(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs a control plane and Prometheus")
	}
	mesh := t.TempDir()
	p, _ := startLoaded(t, mesh)
	asked := collect.Prometheus{Address: p.Address, Window: time.Minute, Client: &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true},
	}}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	patient, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var replicas []advise.Replica
	for round := 1; !complete(replicas); round++ {
		select {
		case <-tick.C:
		case <-patient.Done():
			t.Fatalf("not all is known: %+v", replicas)
		}
		write(t, mesh, round)
		replicas, _ = asked.Replicas(patient) // an error while Prometheus starts, or knows none yet
	}
	require.Len(t, replicas, 1)
	require.InDelta(t, 10, replicas[0].Gauges["pilot_xds"], 0.1)
	h := replicas[0].Histograms["pilot_proxy_convergence_time"]
	require.Len(t, h.Buckets, 9, "istiod's buckets and infinity")
	calls, err := asked.Calls(patient)
	require.NoError(t, err)
	require.Empty(t, calls.Source, "no proxy tells whom it calls")
}

// complete reports whether there is a replica with something of each kind.
func complete(replicas []advise.Replica) bool {
	if len(replicas) == 0 {
		return false
	}
	r := replicas[0]
	return r.Counters["process_cpu_seconds_total"] > 0 && r.Counters["pilot_xds_pushes"] > 0 &&
		r.Gauges["pilot_xds"] == 10 && r.Gauges["go_sched_gomaxprocs_threads"] > 0 &&
		r.Histograms["pilot_proxy_convergence_time"].Count > 0 && r.Histograms["lateen_compile_seconds"].Sum > 0
}
