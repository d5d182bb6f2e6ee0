package cluster

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/testkit/realprometheus"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// requestLabels and connectionLabels are Istio's, in their order in its documentation.
const (
	workloadLabels = "source_workload source_workload_namespace source_principal source_app source_version " +
		"source_cluster source_canonical_service source_canonical_revision destination_workload " +
		"destination_workload_namespace destination_principal destination_app destination_version " +
		"destination_cluster destination_canonical_service destination_canonical_revision destination_service " +
		"destination_service_name destination_service_namespace"
	connectionLabels = "reporter " + workloadLabels + " request_protocol response_flags connection_security_policy"
	requestLabels    = connectionLabels + " response_code" // grpc_response_status is empty, so it is none
)

// callerLabels and calleeLabels are what both sides of a call from caller to callee are called.
const (
	callerLabels = `source_workload="caller-v1",source_workload_namespace="default",` +
		`source_principal="spiffe://cluster.local/ns/default/sa/default",source_app="caller",source_version="v1",` +
		`source_cluster="Kubernetes",source_canonical_service="caller",source_canonical_revision="v1"`
	calleeLabels = `destination_workload="callee-v1",destination_workload_namespace="default",` +
		`destination_principal="spiffe://cluster.local/ns/default/sa/default",destination_app="callee",` +
		`destination_version="v1",destination_cluster="Kubernetes",destination_canonical_service="callee",` +
		`destination_canonical_revision="v1"`
	serviceLabels = `destination_service="callee.default.svc.cluster.local",destination_service_name="callee",` +
		`destination_service_namespace="default"`
)

// forged is what nobody but a proxy may say.
const forged = proxystats.PeerHeader + ": forged;default;forged;v1;"

// standardMetrics are Istio's, as a Prometheus has them that scrapes agents and Envoys.
func standardMetrics(t *testing.T, c *cluster) {
	c.apply(t,
		secured(echo("caller", "v1", 1), time.Hour), secured(echo("callee", "v1", 1, "--tcp=9000"), time.Hour),
		livemesh.Service("callee", "http:80:8080"),
		livemesh.Selecting(space, "callee-lines", "app: callee", "tcp:3306:9000"),
	)
	c.ready(t, "caller-v1", "callee-v1")
	w := c.from(t, "app=caller")
	w.until(t, "http://callee/", "an answer", ok, forged)
	w.untilLines(t, "callee-lines:3306", "v1")
	p := c.scrape(t)
	has := func(query string) {
		t.Helper()
		c.await(t, query, func() bool {
			require.Equal(t, http.StatusOK, w.get("http://callee/").status)
			require.Equal(t, "v1", w.lines(t, "callee-lines:3306"))
			found, err := p.Query(t.Context(), query)
			require.NoError(t, err)
			return len(found) > 0
		})
	}
	answered := `request_protocol="http",response_code="200",grpc_response_status="",response_flags="-"`
	for _, job := range []string{"agents", "envoys"} {
		of := fmt.Sprintf("job=%q,", job) + callerLabels + "," + calleeLabels + ","
		source := of + `reporter="source",connection_security_policy="unknown",`
		destination := of + `reporter="destination",connection_security_policy="mutual_tls",`
		for _, side := range []string{source, destination} {
			for _, name := range []string{
				"requests_total", "request_duration_milliseconds_bucket", "request_bytes_sum", "response_bytes_count",
			} {
				has("istio_" + name + "{" + side + serviceLabels + "," + answered + "} >= 0")
			}
		}
		lines := strings.ReplaceAll(serviceLabels, `"callee`, `"callee-lines`)
		for _, name := range []string{"connections_opened", "connections_closed", "sent_bytes", "received_bytes"} {
			has("istio_tcp_" + name + "_total{" + source + lines + `,request_protocol="tcp"} > 0`)
			has("istio_tcp_" + name + `_total{reporter="destination",connection_security_policy="mutual_tls",` +
				`source_workload="unknown",source_workload_namespace="default",` +
				`source_principal="spiffe://cluster.local/ns/default/sa/default",` + calleeLabels + "," + lines + "} > 0")
		}
	}
	t.Run("labels are Istio's", func(t *testing.T) { labelsAreIstios(t, p) })
	t.Run("peers are not forged", func(t *testing.T) { peersAreNotForged(t, c, w, p) })
	t.Run("Istio's dashboards and Kiali", func(t *testing.T) {
		for _, query := range stockQueries() {
			has(query)
		}
	})
}

// scrape starts a Prometheus that scrapes all pods of the mesh, at both ports.
func (c *cluster) scrape(t *testing.T) *realprometheus.Server {
	t.Helper()
	// Pods are in a network of their own.
	way := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.Host = r.In.Host },
		Transport: &http.Transport{DialContext: c.network.Dial},
	})
	t.Cleanup(way.Close)
	targets := func(port string) string {
		var all []string
		for _, p := range append(c.pods(t, "app=caller"), c.pods(t, "app=callee")...) {
			all = append(all, fmt.Sprintf("%q", net.JoinHostPort(p.Status.PodIP, port)))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	return realprometheus.Start(t, fmt.Sprintf(`global: {scrape_interval: 1s}
scrape_configs:
- {job_name: agents, metrics_path: /stats/prometheus, proxy_url: %[1]q, static_configs: [{targets: %[2]s}]}
- {job_name: envoys, metrics_path: /stats/prometheus, proxy_url: %[1]q, static_configs: [{targets: %[3]s}]}
`, way.URL, targets("15020"), targets("15090")))
}

func labelsAreIstios(t *testing.T, p *realprometheus.Server) {
	for query, want := range map[string]string{
		"istio_requests_total": requestLabels, "istio_response_bytes_count": requestLabels,
		"istio_tcp_sent_bytes_total": connectionLabels,
	} {
		found, err := p.Query(t.Context(), query)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		for _, series := range found {
			labels := slices.Sorted(maps.Keys(series.Metric))
			labels = slices.DeleteFunc(labels, func(l string) bool {
				return l == "__name__" || l == "job" || l == "instance"
			})
			require.ElementsMatch(t, strings.Fields(want), labels, query)
		}
	}
}

// peersAreNotForged: what an application or a client without a proxy says of itself counts for
// nothing and goes nowhere, and no application learns what proxies tell each other.
func peersAreNotForged(t *testing.T, c *cluster, w *workload, p *realprometheus.Server) {
	require.Empty(t, w.until(t, "http://callee/", "an answer", ok, forged).echoed.Headers.Get(proxystats.PeerHeader))
	server := c.pods(t, "app=callee")[0].Status.PodIP
	c.apply(t, bare(echo("bare", "v1", 1)), livemesh.Service("bare", "http:80:8080"))
	c.ready(t, "bare-v1")
	stranger := c.from(t, "app=bare")
	require.Empty(t, stranger.until(t, "http://"+server+":8080/", "an answer", ok, forged).echoed.Headers.
		Get(proxystats.PeerHeader))
	require.Empty(t, w.until(t, "http://bare/", "an answer", ok, forged).echoed.Headers.Get(proxystats.PeerHeader),
		"a workload of the mesh without a proxy")
	c.await(t, "the stranger's request is counted", func() bool {
		found, err := p.Query(t.Context(), `istio_requests_total{reporter="destination",source_workload="unknown",`+
			`source_workload_namespace="unknown",connection_security_policy="none",`+`destination_workload="callee-v1"`+`} > 0`)
		require.NoError(t, err)
		return len(found) > 0
	})
	found, err := p.Query(t.Context(), `{source_workload="forged"}`)
	require.NoError(t, err)
	require.Empty(t, found)
}

// stockQueries are what Istio's dashboards of the mesh, of services and of workloads, and Kiali's
// graph and metrics ask for, with ranges that fit a test; and what the dashboard of the control
// plane asks sidecars for.
func stockQueries() []string {
	return []string{
		// Control plane
		`sum(envoy_cluster_upstream_cx_active{cluster_name="xds-grpc"}) > 0`,
		// Mesh
		`round(sum(irate(istio_requests_total{reporter=~"source|waypoint"}[5m])), 0.01)`,
		`sum(rate(istio_requests_total{reporter=~"source|waypoint", response_code!~"5.*"}[5m])) / ` +
			`sum(rate(istio_requests_total{reporter=~"source|waypoint"}[5m]))`,
		`label_join(sum(rate(istio_requests_total{reporter=~"source|waypoint", response_code="200"}[5m])) by ` +
			`(destination_workload, destination_workload_namespace, destination_service), "destination_workload_var", ".", ` +
			`"destination_workload", "destination_workload_namespace")`,
		`label_join(histogram_quantile(0.90, sum(rate(istio_request_duration_milliseconds_bucket{` +
			`reporter=~"source|waypoint"}[5m])) by (le, destination_workload, destination_workload_namespace, ` +
			`destination_service)) / 1000, "destination_workload_var", ".", "destination_workload", ` +
			`"destination_workload_namespace") >= 0`,
		`label_join(sum(rate(istio_tcp_received_bytes_total{reporter=~"source|waypoint"}[5m])) by ` +
			`(destination_workload, destination_workload_namespace, destination_service), "destination_workload_var", ".", ` +
			`"destination_workload", "destination_workload_namespace")`,
		// Service
		`round(sum(irate(istio_requests_total{reporter=~"source|waypoint",` +
			`destination_service=~"callee.default.svc.cluster.local"}[5m])), 0.001)`,
		`sum(irate(istio_requests_total{connection_security_policy="mutual_tls",` +
			`destination_service=~"callee.default.svc.cluster.local",reporter=~"destination",source_workload=~"caller.*",` +
			`source_workload_namespace=~"default"}[5m])) by (source_workload, source_workload_namespace, response_code)`,
		`histogram_quantile(0.50, sum(irate(istio_request_bytes_bucket{reporter=~"destination",` +
			`destination_service=~"callee.default.svc.cluster.local"}[5m])) by (le)) >= 0`,
		// Workload
		`sum(irate(istio_requests_total{destination_workload_namespace=~"default",destination_workload=~"callee-v1",` +
			`reporter=~"destination",source_workload=~".*"}[5m])) by (source_workload, response_code)`,
		`sum(irate(istio_tcp_sent_bytes_total{reporter=~"source",destination_workload_namespace=~"default",` +
			`destination_workload=~"callee-v1"}[5m])) by (source_workload, source_workload_namespace)`,
		// Kiali
		`sum(rate(istio_requests_total{reporter="source",source_workload_namespace="default"}[5m])) by (source_cluster,` +
			`source_workload_namespace,source_workload,source_canonical_service,source_canonical_revision,` +
			`destination_cluster,destination_service_namespace,destination_service,destination_service_name,` +
			`destination_workload_namespace,destination_workload,destination_canonical_service,` +
			`destination_canonical_revision,request_protocol,response_code,grpc_response_status,response_flags) > 0`,
		`sum(rate(istio_tcp_sent_bytes_total{reporter="source",source_workload_namespace="default"}[5m])) by (` +
			`source_workload,destination_service_name,destination_canonical_service,response_flags) > 0`,
	}
}
