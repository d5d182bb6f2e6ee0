package features

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestProxiesStartAsProxyConfigsSay: the number of workers, and what the environment says of the
// node, of the mesh's object, a namespace's and a workload's.
func TestProxiesStartAsProxyConfigsSay(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.NewEcho("one", "v1"), livemesh.NewEcho("two", "v1"), livemesh.NewEcho("far", "v1").In("shop"),
		livemesh.Object("ProxyConfig istio-system/mesh", `
concurrency: 2
environmentVariables: {ISTIO_META_LEVEL: mesh, ISTIO_META_ONLY: mesh}
`), livemesh.Object("ProxyConfig default/all", `
environmentVariables: {ISTIO_META_LEVEL: namespace}
`), livemesh.Object("ProxyConfig default/two", `
selector: {matchLabels: {app: two}}
concurrency: 3
environmentVariables: {ISTIO_META_LEVEL: workload}
`),
	))
	m.RequireNoProblems()
	for workload, want := range map[string]struct {
		workers int
		level   string
	}{
		"shop/far-v1": {2, "mesh"}, "one-v1": {2, "namespace"}, "two-v1": {3, "workload"},
	} {
		var info struct {
			Options struct {
				Concurrency int `json:"concurrency"`
			} `json:"command_line_options"`
			Node struct {
				Metadata map[string]any `json:"metadata"`
			} `json:"node"`
		}
		require.NoError(t, json.Unmarshal([]byte(m.Admin(workload, "/server_info")), &info))
		require.Equal(t, want.workers, info.Options.Concurrency, workload)
		require.Equal(t, want.level, info.Node.Metadata["LEVEL"], workload)
		require.Equal(t, "mesh", info.Node.Metadata["ONLY"], workload)
	}
	m.Run("two for the same workloads", livemesh.File("again.yaml", livemesh.Object("ProxyConfig default/two-again", `
selector: {matchLabels: {app: two}}
`)), func(t *testing.T, m *livemesh.Mesh) {
		m.AwaitProblem("ProxyConfig default/two-again", "is for the same workloads and comes first")
	})
}
