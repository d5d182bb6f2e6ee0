package features

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	adminpage "github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// The calls of these tests, of which some are answered with 500.
const (
	goodCalls = 30
	badCalls  = 10
)

// advised is what the advisor says of telemetry in a mesh with so many requests a second as no test
// can send: of these the share fails that the tests' calls have. All else is as the control plane
// says.
func advised(t *testing.T, m *livemesh.Mesh) []advise.Finding {
	t.Helper()
	var counted adminpage.Census
	require.NoError(t, json.Unmarshal([]byte(m.Monitoring("/debug/census")), &counted))
	model, err := advise.StoredModel()
	require.NoError(t, err)
	facts := &advise.Facts{Census: counted.Census, Requests: 5000, Failed: 5000.0 * badCalls / (goodCalls + badCalls)}
	var found []advise.Finding
	for _, f := range advise.Advise(facts, model).Findings {
		if f.Rule == "telemetry" {
			found = append(found, f)
		}
	}
	return found
}

// promised is what is left by an advice of what there was: a share.
func promised(t *testing.T, f advise.Finding, what string) float64 {
	t.Helper()
	for _, e := range f.Effects {
		if e.What == what {
			return e.After / e.Before
		}
	}
	require.Fail(t, "no such effect", "%s: %+v", what, f)
	return 0
}

// loggedCalls sends the calls below a path, and returns how many lines both proxies have written of
// them when those of the last calls are there. Each proxy writes its lines in order.
func loggedCalls(t *testing.T, m *livemesh.Mesh, file, path string) float64 {
	t.Helper()
	client := m.Client("client-v1")                                // connections keep the listener that they came by
	requireStatus(t, 200, client.Get("http://web"+path+"-before")) // ends that of the two proxies
	for i := range goodCalls + badCalls {
		to, want := fmt.Sprintf("http://web%s/%d", path, i), 200
		if i >= goodCalls {
			to, want = fmt.Sprintf("http://web/status/500?%s/%d", strings.TrimPrefix(path, "/"), i), 500
		}
		requireStatus(t, want, client.Get(to))
	}
	last := fmt.Sprintf("/%d ", goodCalls+badCalls-1)
	lines := func() (n, ends int) {
		for _, line := range pathsIn(t, file) {
			if !strings.Contains(line, strings.TrimPrefix(path, "/")+"/") {
				continue
			}
			n++
			if strings.Contains(line, last) {
				ends++
			}
		}
		return n, ends
	}
	m.Await("the lines of the last call", func() bool { _, ends := lines(); return ends == 2 })
	n, _ := lines()
	return float64(n)
}

// TestAdviceAboutAccessLogsHolds: a mesh that logs each call, by accessLogFile and by a default
// provider. The Telemetry that is advised leaves the promised share of lines, and then there is
// nothing more to advise.
func TestAdviceAboutAccessLogsHolds(t *testing.T) {
	dir := t.TempDir()
	const form = `{"path": "%REQ(:PATH)%", "cluster": "%UPSTREAM_CLUSTER_RAW%"}`
	mesh := func(file, inForce string) string {
		return livemesh.File("mesh.yaml", fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    %s
    accessLogEncoding: JSON
    accessLogFormat: '%s'
    extensionProviders:
    - {name: envoy, envoyFileAccessLog: {path: %s, logFormat: {labels: %[2]s}}}
`, inForce, form, file))
	}
	m := livemesh.Start(t, livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1"),
		livemesh.Service("web", "http:80:8080")))
	require.Empty(t, advised(t, m))
	for name, inForce := range map[string]string{
		"file": "accessLogFile: %s", "provider": "defaultProviders: {accessLogging: [envoy]}",
	} {
		file := filepath.Join(dir, name)
		if strings.Contains(inForce, "%s") {
			inForce = fmt.Sprintf(inForce, file)
		}
		m.Apply(mesh(file, inForce))
		found := advised(t, m)
		require.Len(t, found, 1)
		require.True(t, found[0].Remedy.Automatic)
		before := loggedCalls(t, m, file, "/"+name+"-all")
		require.InDelta(t, 2*(goodCalls+badCalls), before, 0.1, "a line of each proxy")

		m.Apply(livemesh.File("advice.yaml", found[0].Remedy.Manifests))
		m.RequireNoProblems()
		after := loggedCalls(t, m, file, "/"+name+"-errors")
		require.InDelta(t, promised(t, found[0], "logged requests"), after/before, 1e-9)
		require.Empty(t, advised(t, m), "the advice is followed")
		m.Delete("advice.yaml")
	}
}

// TestAdviceAboutSamplingHolds: a mesh that traces each call. With the advised percentage the
// promised share of calls is traced, but for chance.
func TestAdviceAboutSamplingHolds(t *testing.T) {
	s, port := zipkinAPI(t)
	mesh := func(percent int) string {
		return livemesh.File("mesh.yaml", fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    defaultProviders: {tracing: [spans]}
    defaultConfig: {tracing: {sampling: %d}}
    extensionProviders:
    - {name: spans, zipkin: {service: zipkin.test, port: %d}}
`, percent, port))
	}
	m := livemesh.Start(t, mesh(100)+livemesh.File("base.yaml", livemesh.NewEcho("client", "v1"),
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"), httpEntry("zipkin", port)))
	traced := func(path string, calls int) int {
		client := m.Client("client-v1")
		for range calls {
			requireStatus(t, 200, client.Get("http://web"+path))
		}
		requireStatus(t, 200, client.Get("http://web"+path+"-last", b3(fmt.Sprintf("4bf92f3577b34da6%016x", calls))))
		of := func(path string) int {
			return len(s.find(func(one span) bool { return one.kind == "CLIENT" && one.called(path) }))
		}
		m.Await("the span of a later call, that is traced for certain", func() bool { return of(path+"-last") == 1 })
		return of(path)
	}
	const calls = 400
	found := advised(t, m)
	require.Len(t, found, 1)
	require.Contains(t, found[0].Remedy.Text, "meshConfig.defaultConfig.tracing.sampling to 1")
	traced("/all", calls)
	m.Await("a span of each call", func() bool {
		return len(s.find(func(one span) bool { return one.kind == "CLIENT" && one.called("/all") })) == calls
	})

	m.Apply(mesh(1))
	low, high := binomialBounds(calls, promised(t, found[0], "traced requests"))
	n := traced("/few", calls)
	require.GreaterOrEqual(t, n, low)
	require.LessOrEqual(t, n, high)
	require.Empty(t, advised(t, m))
}
