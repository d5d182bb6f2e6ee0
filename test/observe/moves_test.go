package observe

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

// metricsFile lists all metrics of a control plane.
const metricsFile = "../../internal/observe/testdata/metrics.golden"

// constants are the metrics that say what a process is.
var constants = []string{"istio_build", "pilot_info", "lateen_push_slots"}

// movedElsewhere are the tests that make metrics move which need a cluster, an authority, or a
// client that breaks rules: a directory and a test, by metric.
var movedElsewhere = map[string]string{
	"auto_registration_deletes_total":                 machines,
	"auto_registration_errors_total":                  "internal/cluster/machines TestWhoMayNotRegister",
	"auto_registration_success_total":                 machines,
	"auto_registration_unregister_total":              machines,
	"auto_registration_updates_total":                 "internal/cluster/machines TestAMachineComesBack",
	"citadel_server_authentication_failure_count":     "internal/trust/ca TestRefusalsSayWhy",
	"citadel_server_cert_chain_expiry_seconds":        inCluster,
	"citadel_server_cert_chain_expiry_timestamp":      pluggedIn,
	"citadel_server_csr_count":                        issues,
	"citadel_server_csr_parsing_err_count":            "internal/trust/ca TestRefusalsSayWhy",
	"citadel_server_csr_sign_err_count":               "internal/trust/ca TestRefusalsSayWhy",
	"citadel_server_id_extraction_err_count":          "internal/trust/ca TestRefusalsSayWhy",
	"citadel_server_root_cert_expiry_seconds":         inCluster,
	"citadel_server_root_cert_expiry_timestamp":       pluggedIn,
	"citadel_server_success_cert_issuance_count":      issues,
	"controller_sync_errors_total":                    "internal/source/kube TestForbiddenResourceDelaysSynced",
	"endpoint_no_pod":                                 mistakes,
	"galley_validation_config_update_error":           yields,
	"galley_validation_config_updates":                anotherIsReady,
	"galley_validation_failed":                        inCluster,
	"galley_validation_http_error":                    "internal/cluster/webhook TestWhatIsNoReviewIsRefused",
	"galley_validation_passed":                        inCluster,
	"lateen_ca_rejected_total":                        pluggedIn,
	"lateen_ca_root_writes_total":                     roots,
	"lateen_coalesced_pushes_total":                   "test/wire TestManyGenerationsLeaveEachClientWithTheNewest",
	"lateen_drops_total":                              "internal/xds/fanout TestUnreadRecordsAreDroppedOldestFirst",
	"lateen_empty_pushes_total":                       "internal/xds/serve TestPushThatFindsNothingIsCounted",
	"lateen_gateway_objects_total":                    "test/incluster TestGatewayAPIStatusesAreWritten",
	"lateen_injection_config_errors_total":            keepsLast,
	"lateen_key_sets_left_out":                        "internal/trust/keysets TestLargeSetsOfOneNamespacePushNoneOut",
	"lateen_leader":                                   inCluster,
	"lateen_patch_proxies":                            patched,
	"lateen_patch_resources":                          patched,
	"lateen_push_slots_busy":                          "internal/xds/fanout TestTheUseOfSlotsIsCounted",
	"lateen_serving_certificate_expiry_seconds":       inCluster,
	"lateen_status_pending":                           "internal/cluster/status TestABacklogIsPaced",
	"lateen_status_writes_total":                      inCluster,
	"lateen_watch_events_total":                       inCluster,
	"lateen_webhook_clients_refused_total":            "test/incluster TestLastReplicaThatStopsLeavesIgnore",
	"lateen_xds_ended_streams_total":                  "internal/xds/serve TestStreamEndsWhenItsPodIsGone",
	"lateen_xds_held_requests_total":                  "internal/xds/serve TestClientThatAsksForTooMuchWaits",
	"lateen_xds_limited_total":                        "internal/xds/serve TestPodHasLimitedStreams",
	"lateen_xds_queued_bytes":                         "internal/xds/serve TestUnsentBytesOfAClientAreBounded",
	"lateen_xds_refused_streams_total":                "internal/xds/serve TestBadNodeIsToldWhatIsRight",
	"lateen_xds_waiting_streams":                      "internal/xds/serve TestStormHoldsNoMoreThanTheQueue",
	"pilot_duplicate_envoy_clusters":                  mistakes,
	"pilot_endpoint_not_ready":                        mistakes,
	"pilot_jwks_resolver_network_fetch_fail_total":    keys,
	"pilot_jwks_resolver_network_fetch_success_total": keys,
	"pilot_k8s_endpoints_pending_pod":                 mistakes,
	"pilot_k8s_endpoints_with_no_pods":                mistakes,
	"pilot_total_xds_internal_errors":                 "internal/xds/serve TestBugEndsOneStreamOnly",
	"pilot_xds_expired_nonce":                         "internal/xds/serve TestExpiredNonceIsCounted",
	"pilot_xds_write_timeout":                         "internal/xds/serve TestSendThatTakesTooLongEndsTheStream",
	"sidecar_injection_failure_total":                 injection,
	"sidecar_injection_requests_total":                injection,
	"sidecar_injection_skip_total":                    injection,
	"sidecar_injection_success_total":                 injection,
	"sidecar_injection_time_seconds":                  injection,
}

const (
	inCluster      = "test/incluster TestInstalledControlPlaneWorksWithItsRights"
	injection      = "internal/cluster/webhook TestInjection"
	machines       = "internal/cluster/machines TestAMachineComesAndGoes"
	keys           = "internal/trust/keysets TestWhatCannotBeFetchedIsSaidAndTriedAgain"
	mistakes       = "internal/app TestMetricsOfTheMeshFollowIt"
	patched        = "test/live/features TestEnvoyFiltersSayWhatTheyDo"
	keepsLast      = "internal/cluster/inject/watch TestTheLastGoodConfigurationStays"
	pluggedIn      = "internal/trust/ca TestPluggedInAuthorityTakesPrecedence"
	issues         = "internal/trust/ca TestCertificatesAreIssuedToWhoProvesAnIdentity"
	roots          = "internal/trust/ca TestRootsAreInEachNamespaceInScope"
	anotherIsReady = "internal/cluster/webhook/registration TestYieldSetsIgnoreUnlessAnotherReplicaIsReady"
	yields         = "internal/cluster/webhook/registration TestConfigurationsThatCannotBeWrittenAreCounted"
)

// TestEachMetricMoves: no metric stands still for ever. A control plane has sidecars of which some
// refuse, some are slow, and a mesh with mistakes that changes, until each metric has changed; the
// other metrics name the tests that make them move.
func TestEachMetricMoves(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs a control plane")
	}
	still := metricNames(t)
	for name, where := range movedElsewhere {
		require.Contains(t, still, name, "there is no such metric")
		delete(still, name)
		requireTest(t, where)
	}
	for _, name := range constants {
		delete(still, name)
	}
	binary, err := lateenserve.Build(t.TempDir())
	require.NoError(t, err)
	mesh := t.TempDir()
	lateen := lateenserve.Start(t, lateenserve.Options{
		Binary: binary, Args: []string{"--config-dir", mesh, "--state-dir", t.TempDir()},
	})
	before := lateen.Metrics(t)
	write(t, mesh, 0)
	require.NoError(t, os.WriteFile(filepath.Join(mesh, "mistakes.yaml"), []byte(meshOfMistakes()), 0o600))
	fleetWithFaults(t, lateen.XDS)

	patient, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for round := 1; len(still) > 0; round++ {
		select {
		case <-tick.C:
		case <-patient.Done():
			t.Fatalf("these have not moved: %q", slices.Sorted(maps.Keys(still)))
		}
		write(t, mesh, round)
		now := lateen.Metrics(t)
		maps.DeleteFunc(still, func(name string, _ bool) bool { return total(now[name]) != total(before[name]) })
	}
}

// metricNames returns the names of all metrics.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(metricsFile)
	require.NoError(t, err)
	all := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, " ")
		all[name] = true
	}
	require.Greater(t, len(all), 50)
	return all
}

// requireTest requires that a directory has a test, given as "DIRECTORY TEST".
func requireTest(t *testing.T, where string) {
	t.Helper()
	dir, name, _ := strings.Cut(where, " ")
	out, err := exec.CommandContext(t.Context(), "grep", "-rlE", "--include=*_test.go", `^func `+name+`\(`,
		filepath.Join("../..", dir)).CombinedOutput()
	require.NoError(t, err, "there is no test %s: %s", where, out)
}

// total adds up all series of a metric; of histograms, how often they were observed.
func total(f *dto.MetricFamily) (sum float64) {
	for _, m := range f.GetMetric() {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}

// fleetWithFaults starts sidecars: some refuse half of what they get, one answers late.
func fleetWithFaults(t *testing.T, target string) {
	t.Helper()
	fleet, err := sidecar.New(sidecar.Options{Targets: []string{target}})
	require.NoError(t, err)
	t.Cleanup(fleet.Close)
	for i := range 20 {
		var faults sidecar.Faults
		switch {
		case i == 0:
			faults.AckDelay = 30 * time.Second
		case i > 10:
			faults.NackShare = 0.5
		}
		fleet.Start(sidecar.Identity{
			Namespace: "shop", Pod: fmt.Sprintf("web-%d", i), Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}),
			Labels: map[string]string{"app": "web"},
		}, faults)
	}
}

// meshOfMistakes returns what moves the metrics of a mesh: a service with so many endpoints that
// each is a resource, what two objects claim, and what cannot be in force.
func meshOfMistakes() string {
	var endpoints strings.Builder
	for i := range 250 {
		fmt.Fprintf(&endpoints, "  - {address: 10.9.0.%d}\n", i+1)
	}
	return conflicts + "---\n" + `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: many, namespace: shop}
spec:
  hosts: [many.test]
  resolution: STATIC
  ports: [{name: http, number: 80, protocol: HTTP}]
  endpoints:
` + endpoints.String()
}

const conflicts = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web-again, namespace: shop}
spec: {hosts: [web], http: [{route: [{destination: {host: web}}]}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: shop}
spec: {host: web, subsets: [{name: v1, labels: {version: v1}}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: bad, namespace: shop}
spec: {selector: {app: web}, servers: [{port: {number: 0, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web-too, namespace: shop}
spec: {clusterIP: 10.1.0.2, selector: {app: web}, ports: [{name: tcp, port: 81, targetPort: 80}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: raw-a, namespace: shop}
spec: {hosts: [a.raw], resolution: DNS, ports: [{name: tcp, number: 9999, protocol: TCP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: raw-b, namespace: shop}
spec: {hosts: [b.raw], resolution: DNS, ports: [{name: tcp, number: 9999, protocol: TCP}]}
`
