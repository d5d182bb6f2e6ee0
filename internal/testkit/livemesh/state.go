package livemesh

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// Pods are those that run now and are not on their way out.
func (m *Mesh) Pods() []local.PodStatus {
	var pods []local.PodStatus
	for _, p := range m.tap.Snapshot().Pods {
		if p.State != local.Terminating {
			pods = append(pods, p)
		}
	}
	return pods
}

// PodsOf are the pods of a workload: "deployment", "namespace/deployment", or a pod's name.
func (m *Mesh) PodsOf(workload string) []local.PodStatus {
	namespace, name, qualified := strings.Cut(workload, "/")
	if !qualified {
		namespace, name = "default", workload
	}
	var pods []local.PodStatus
	for _, p := range m.Pods() {
		if p.Namespace == namespace && (p.Workload == name || p.Name == name) {
			pods = append(pods, p)
		}
	}
	return pods
}

// Pod is the first pod of a workload.
func (m *Mesh) Pod(workload string) local.PodStatus {
	m.t.Helper()
	pods := m.PodsOf(workload)
	require.NotEmpty(m.t, pods, "no pod of %s", workload)
	return pods[0]
}

// Proxy is the connected proxy of a workload's first pod.
func (m *Mesh) Proxy(workload string) serve.Client {
	m.t.Helper()
	c, connected := m.Connection(workload)
	require.True(m.t, connected, "%s is not connected", workload)
	return c
}

// Connection is that of the proxy of a workload's first pod; false while there is none.
func (m *Mesh) Connection(workload string) (serve.Client, bool) {
	m.t.Helper()
	p := m.Pod(workload)
	for _, c := range m.pipeline.Clients() {
		if c.Node.Name == p.Name+"."+p.Namespace {
			return c, true
		}
	}
	return serve.Client{}, false
}

// ConfigBytes is the size of all resources that the proxy of a workload's first pod has.
func (m *Mesh) ConfigBytes(workload string) int {
	m.t.Helper()
	n := 0
	for _, t := range m.Proxy(workload).Types {
		n += t.Bytes
	}
	return n
}

// Problems are those that stand now.
func (m *Mesh) Problems() []source.Problem { return m.pipeline.Problems() }

// ProblemsWith are the problems whose line has all of the texts.
func (m *Mesh) ProblemsWith(texts ...string) []source.Problem {
	var found []source.Problem
next:
	for _, p := range m.Problems() {
		for _, text := range texts {
			if !strings.Contains(p.String(), text) {
				continue next
			}
		}
		found = append(found, p)
	}
	return found
}

// AwaitProblem waits for a problem whose line has all of the texts.
func (m *Mesh) AwaitProblem(texts ...string) source.Problem {
	m.t.Helper()
	var found []source.Problem
	m.Await(fmt.Sprintf("a problem with %q", texts), func() bool {
		found = m.ProblemsWith(texts...)
		return len(found) > 0
	})
	return found[0]
}

// RequireNoProblems fails the test if anything is wrong with the manifests.
func (m *Mesh) RequireNoProblems() {
	m.t.Helper()
	require.Empty(m.t, m.Problems())
}

// pollEvery is the pause between two looks at a condition that nobody announces.
const pollEvery = 5 * time.Millisecond

// Await waits until a condition holds; what names it for people.
func (m *Mesh) Await(what string, condition func() bool) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !condition() {
		select {
		case <-ctx.Done():
			m.t.Fatalf("it did not happen: %s\n%s", what, m.describe(m.tap.Snapshot()))
		case <-tick.C:
		}
	}
}

// AwaitPods waits until a condition holds for the pods of a workload.
func (m *Mesh) AwaitPods(workload string, condition func([]local.PodStatus) bool) {
	m.t.Helper()
	m.Await("pods of "+workload, func() bool { return condition(m.PodsOf(workload)) })
}

// Metric is the sum of the samples of a metric on /metrics that have all of the labels.
func (m *Mesh) Metric(name string, labels map[string]string) float64 {
	m.t.Helper()
	resp, err := http.Get(m.monitoring + "/metrics")
	require.NoError(m.t, err)
	defer func() { _ = resp.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	require.NoError(m.t, err)
	sum := 0.0
next:
	for _, sample := range families[name].GetMetric() {
		has := map[string]string{}
		for _, l := range sample.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		for k, v := range labels {
			if has[k] != v {
				continue next
			}
		}
		sum += sample.GetCounter().GetValue() + sample.GetGauge().GetValue()
	}
	return sum
}

// Monitoring is the body of a page of the monitoring port.
func (m *Mesh) Monitoring(path string) string {
	m.t.Helper()
	return m.page(m.monitoring + path)
}

// MonitoringURL is the address of a path of the control plane's monitoring port.
func (m *Mesh) MonitoringURL(path string) string { return m.monitoring + path }

// Admin is the body of a page of the admin port of the Envoy of a workload's first pod.
func (m *Mesh) Admin(workload, path string) string {
	m.t.Helper()
	return m.page(fmt.Sprintf("http://%s%s", netip.AddrPortFrom(m.Pod(workload).Outbound, local.AdminPort), path))
}

func (m *Mesh) page(url string) string {
	m.t.Helper()
	resp, err := http.Get(url)
	require.NoError(m.t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(m.t, err)
	require.Equal(m.t, http.StatusOK, resp.StatusCode, "%s", body)
	return string(body)
}
