package features

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// marks is what an access log shows of the policies that decide nothing.
const marks = `
- name: marks
  envoyFileAccessLog:
    path: %s
    logFormat:
      labels:
        path: "%%REQ(:PATH)%%"
        audit: "%%DYNAMIC_METADATA(envoy.common:access_log_hint)%%"
        denies: "%%DYNAMIC_METADATA(envoy.filters.http.rbac:istio_dry_run_deny_shadow_effective_policy_id)%%"
        denied: "%%DYNAMIC_METADATA(envoy.filters.http.rbac:istio_dry_run_deny_shadow_engine_result)%%"
        allows: "%%DYNAMIC_METADATA(envoy.filters.http.rbac:istio_dry_run_allow_shadow_effective_policy_id)%%"
        allowed: "%%DYNAMIC_METADATA(envoy.filters.http.rbac:istio_dry_run_allow_shadow_engine_result)%%"
`

// TestPoliciesThatDecideNothingAreSeen: AUDIT and dry runs leave marks for access logs, and dry
// runs are counted.
func TestPoliciesThatDecideNothingAreSeen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	policy := func(name, action, path string) string {
		return livemesh.Object("AuthorizationPolicy "+name, fmt.Sprintf("selector: {matchLabels: {app: web}}\n"+
			"action: %s\nrules: [{to: [{operation: {paths: [%s]}}]}]\n", action, path))
	}
	m := livemesh.Start(t, meshWithLogs("[marks]", fmt.Sprintf(marks, file))+livemesh.File("base.yaml",
		livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		policy("audit", "AUDIT", "/audited"), livemesh.DryRun(policy("refuses", "DENY", "/denied")),
		livemesh.DryRun(policy("accepts", "ALLOW", "/allowed"))))
	m.RequireNoProblems()
	before := dryRunsCounted(t, m, "web-v1")
	asked := []string{"/audited", "/denied", "/allowed", "/asked"}
	for _, path := range asked {
		requireStatus(t, http.StatusOK, m.Gateway("web-v1", 8080).Get(path))
	}
	logged := map[string]map[string]any{}
	m.Await("a line of each request", func() bool {
		logged = linesIn(t, file) // with those by which the mesh sees that it is there
		return !slices.ContainsFunc(asked, func(path string) bool { return logged[path] == nil })
	})
	for _, path := range asked {
		assert.Equal(t, path == "/audited", fmt.Sprint(logged[path]["audit"]) == "true", path)
	}
	assert.Equal(t, "ns[default]-policy[refuses]-rule[0]", logged["/denied"]["denies"])
	assert.Equal(t, "denied", logged["/denied"]["denied"])
	assert.Equal(t, "allowed", logged["/asked"]["denied"])
	assert.Equal(t, "ns[default]-policy[accepts]-rule[0]", logged["/allowed"]["allows"])
	assert.Equal(t, "allowed", logged["/allowed"]["allowed"])
	assert.Equal(t, "denied", logged["/asked"]["allowed"])
	after := dryRunsCounted(t, m, "web-v1")
	for statistic, counted := range map[string]int{
		"deny_.shadow_denied": 1, "deny_.shadow_allowed": 3, "allow_.shadow_allowed": 1, "allow_.shadow_denied": 3,
	} {
		name := "http.inbound_0.0.0.0_8080;.rbac.istio_dry_run_" + statistic
		require.Contains(t, after, name)
		require.Equal(t, counted, after[name]-before[name], name)
	}
}

// linesIn are the whole lines of a log in JSON, by path.
func linesIn(t *testing.T, file string) map[string]map[string]any {
	t.Helper()
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	found := map[string]map[string]any{}
	lines := strings.Split(string(data), "\n")
	for _, l := range lines[:len(lines)-1] {
		var entry map[string]any
		require.NoError(t, json.Unmarshal([]byte(l), &entry), l)
		found[fmt.Sprint(entry["path"])] = entry
	}
	return found
}
