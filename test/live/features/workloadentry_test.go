package features

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// legacy is a host whose endpoints are the WorkloadEntries with a label.
const legacy = `
hosts: [legacy.test]
ports: [{number: 80, name: http, protocol: HTTP}]
location: MESH_INTERNAL
resolution: STATIC
workloadSelector: {labels: {app: legacy}}
`

// workload is a WorkloadEntry for a recorder; fields are further ones of its spec.
func (r *recorder) workload(name, version, fields string) string {
	return livemesh.Object("WorkloadEntry "+name, fmt.Sprintf(`
address: %s
labels: {app: legacy, version: %s}
ports: {http: %d}
%s`, r.address().Addr(), version, r.address().Port(), fields))
}

// checked is a WorkloadEntry whose health is checked, with what the last check said; "" for no
// result yet.
func checked(entry, healthy string) string {
	entry = strings.Replace(entry, "metadata: {", "metadata: {annotations: {"+kinds.HealthAnnotation+": \"true\"}, ", 1)
	if healthy == "" {
		return entry
	}
	return fmt.Sprintf("%s\nstatus: {conditions: [{type: Healthy, status: %q}]}\n", entry, healthy)
}

func TestWorkloadEntriesServe(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml", livemesh.NewEcho("client", "v1")))
	a, b := newRecorder(t), newRecorder(t)
	get := func(m *livemesh.Mesh, target string) livemesh.Answer { return m.Client("client-v1").Get(target) }

	m.Run("a ServiceEntry that selects them", livemesh.File("vm.yaml",
		livemesh.Object("ServiceEntry legacy", legacy), a.workload("vm-a", "v1", ""), b.workload("vm-b", "v2", ""),
	), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		for range 20 {
			requireVersion(t, "recorder", get(m, "http://legacy.test/both"))
		}
		require.Positive(t, a.count("/both"))
		require.Positive(t, b.count("/both"))
		m.Run("subsets by their labels", livemesh.File("rule.yaml", livemesh.Object("DestinationRule legacy", `
host: legacy.test
subsets: [{name: v2, labels: {version: v2}}]
`))+virtual("legacy", `
hosts: [legacy.test]
http: [{route: [{destination: {host: legacy.test, subset: v2}}]}]
`), func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			for range 10 {
				requireVersion(t, "recorder", get(m, "http://legacy.test/v2"))
			}
			require.Zero(t, a.count("/v2"))
			require.Equal(t, 10, b.count("/v2"))
		})
	})
	m.Run("a Service that selects them", livemesh.File("vm.yaml",
		livemesh.Selecting("default", "billing", "app: legacy", "http:80"), a.workload("vm-a", "v1", ""),
	), func(t *testing.T, m *livemesh.Mesh) {
		requireVersion(t, "recorder", get(m, "http://billing.default/service"))
		require.Equal(t, 1, a.count("/service"))
	})
	m.Run("weights share the calls", livemesh.File("vm.yaml",
		livemesh.Object("ServiceEntry legacy", legacy), a.workload("vm-a", "v1", "weight: 9"),
		b.workload("vm-b", "v2", "weight: 1"),
	), func(t *testing.T, m *livemesh.Mesh) {
		for range 200 {
			requireVersion(t, "recorder", get(m, "http://legacy.test/weights"))
		}
		require.Greater(t, a.count("/weights"), 130)
		require.Positive(t, b.count("/weights"))
	})
	for healthy, status := range map[string]int{"": 503, "False": 503, "True": 200} {
		m.Run("health "+strconv.Quote(healthy), livemesh.File("vm.yaml",
			livemesh.Object("ServiceEntry legacy", legacy), checked(a.workload("vm-a", "v1", ""), healthy),
		), func(t *testing.T, m *livemesh.Mesh) {
			requireStatus(t, status, get(m, "http://legacy.test/health"))
		})
	}
	m.Run("one that goes is called no more", livemesh.File("vm.yaml",
		livemesh.Object("ServiceEntry legacy", legacy), b.workload("vm-b", "v2", ""),
	), func(t *testing.T, m *livemesh.Mesh) {
		for range 10 {
			requireVersion(t, "recorder", get(m, "http://legacy.test/left"))
		}
		require.Equal(t, 10, b.count("/left"))
	})
}
