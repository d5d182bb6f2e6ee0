package lab

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

// bench is the Gateway with a status that counts routes, or without one.
func bench(label string, attached ...int64) *unstructured.Unstructured {
	o := map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": label}}}
	listeners := []any{}
	for _, n := range attached {
		listeners = append(listeners, map[string]any{"attachedRoutes": n})
	}
	if len(attached) > 0 {
		o["status"] = map[string]any{"listeners": listeners}
	}
	return &unstructured.Unstructured{Object: o}
}

// Each status that differs from the one before is an update. It is right since it says the number
// that it does not leave again.
func TestUpdatesOfAGatewaysStatusAreCounted(t *testing.T) {
	c := &attachedCount{}
	c.observe(bench("first", 0))
	c.begin(3)
	require.Equal(t, 0, c.done(3))
	c.observe(bench("its labels change", 0))
	c.observe(bench("", 2))
	require.Equal(t, 2, c.done(3))
	c.observe(bench("", 3))
	soon, updates := c.result()
	require.Equal(t, 2, updates)
	require.False(t, soon.IsZero())
	c.observe(bench("", 4))
	right, _ := c.result()
	require.True(t, right.IsZero(), "too many")
	require.Equal(t, 2, c.done(3))
	c.observe(bench("", 2, 1))
	right, updates = c.result()
	require.Equal(t, 4, updates)
	require.False(t, right.Before(soon))
	require.Equal(t, 3, c.done(3))
	c.begin(0)
	require.Equal(t, 0, c.done(3))
	c.observe(bench("", 0, 0))
	require.Equal(t, 3, c.done(3))
}

// TestRoutesAttachInACluster has a program stand in for another control plane, which is measured
// before Lateen in the same cluster: another Lateen, with its own flags.
func TestRoutesAttachInACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts an API server")
	}
	api := kubeapi.Start(t, kubeapi.Options{})
	api.InstallIstioCRDs(t)
	api.InstallGatewayAPICRDs(t)
	here := Cluster{Kubeconfig: api.Kubeconfig(), Serve: []string{lateen, "serve", "--log-level", "warn"}}
	command, target, err := here.command(attachedNamespace)
	require.NoError(t, err)
	here.Run, here.Target = strings.Join(command, " "), target
	r := &run{
		Options: Options{
			Scale: 0.01, Pause: 0.1, Patience: 2 * time.Minute, Progress: func(string, int, int) {}, Cluster: here,
		},
		tables: gatewayTables(),
	}
	require.NoError(t, r.countAttached(t.Context()))
	table := r.tables[attachedTable]
	require.Len(t, table.Rows, 4)
	for i, name := range []string{"lateen: added", "lateen: removed", "lateen: added", "lateen: removed"} {
		require.Equal(t, name, table.Rows[i].Name)
	}
	require.Equal(t, []float64{6, 6, 6, 6}, ours(t, table, "routes"))
	for _, n := range ours(t, table, "updates of the Gateway's status") {
		require.Positive(t, n)
		require.LessOrEqual(t, n, 6.0, "one for each route at most")
	}
}
