package features

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// connectionMarks is what an access log shows of the policies that decide nothing about a
// connection that is not HTTP. Its path is the port.
const connectionMarks = `
- name: marks
  envoyFileAccessLog:
    path: %s
    logFormat:
      labels:
        path: "%%DOWNSTREAM_LOCAL_PORT%%"
        audit: "%%DYNAMIC_METADATA(envoy.common:access_log_hint)%%"
        denied: "%%DYNAMIC_METADATA(envoy.filters.network.rbac:istio_dry_run_deny_shadow_engine_result)%%"
        denies: "%%DYNAMIC_METADATA(envoy.filters.network.rbac:istio_dry_run_deny_shadow_effective_policy_id)%%"
        allowed: "%%DYNAMIC_METADATA(envoy.filters.network.rbac:istio_dry_run_allow_shadow_engine_result)%%"
`

// portPolicy is a policy of web with one rule, about an operation.
func portPolicy(name, action, operation string) string {
	return livemesh.Object("AuthorizationPolicy "+name, fmt.Sprintf(
		"selector: {matchLabels: {app: web}}\naction: %s\nrules: [{to: [{operation: %s}]}]\n", action, operation))
}

// TestPoliciesThatDecideNothingRefuseNoConnection: where there are no requests, AUDIT and dry runs
// refuse nothing either, whether they match a connection or not. They leave marks and are counted,
// and policies in force beside them decide.
func TestPoliciesThatDecideNothingRefuseNoConnection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	m := livemesh.Start(t, meshWithLogs("[marks]", fmt.Sprintf(connectionMarks, file))+livemesh.File("base.yaml",
		livemesh.NewEcho("web", "v1").TCP(7000, 7001, 7002),
		livemesh.Service("web", "http:80:8080", "tcp-a:7000", "tcp-b:7001", "tcp-c:7002"),
		portPolicy("audit", "AUDIT", `{ports: ["7000"], paths: [/a]}`),
		livemesh.DryRun(portPolicy("refuses", "DENY", `{ports: ["7000"], methods: [GET]}`)),
		livemesh.DryRun(portPolicy("accepts", "ALLOW", `{ports: ["7001"]}`)),
		livemesh.DryRun(portPolicy("accepts-requests", "ALLOW", `{ports: ["7000"], methods: [GET]}`)),
		portPolicy("deny", "DENY", `{ports: ["7002"]}`)))
	m.RequireNoProblems()
	answered := func(port uint16) bool { return lineOf(netip.AddrPortFrom(m.Pod("web-v1").Pod, port)) != "" }
	before := dryRunsCounted(t, m, "web-v1")
	require.True(t, answered(7000), "what a dry run of DENY matches, and none of ALLOW")
	require.True(t, answered(7001), "what a dry run of ALLOW matches")
	require.False(t, answered(7002), "a DENY in force refuses")

	logged := map[string]map[string]any{}
	m.Await("a line of each connection", func() bool {
		logged = linesIn(t, file)
		return logged["7000"] != nil && logged["7001"] != nil && logged["7002"] != nil
	})
	for port, audited := range map[string]bool{"7000": true, "7001": false, "7002": false} {
		assert.Equal(t, audited, fmt.Sprint(logged[port]["audit"]) == "true", port)
	}
	assert.Equal(t, "ns[default]-policy[refuses]-rule[0]", logged["7000"]["denies"])
	assert.Equal(t, "denied", logged["7000"]["denied"])
	assert.Equal(t, "denied", logged["7000"]["allowed"])
	assert.Equal(t, "allowed", logged["7001"]["denied"])
	assert.Equal(t, "allowed", logged["7001"]["allowed"])

	after := dryRunsCounted(t, m, "web-v1")
	for statistic, counted := range map[string]int{
		"deny_.shadow_denied": 1, "deny_.shadow_allowed": 2, // the refused one as well
		"allow_.shadow_allowed": 1, "allow_.shadow_denied": 1,
	} {
		name := "tcp.rbac.istio_dry_run_" + statistic
		require.Contains(t, after, name)
		require.Equal(t, counted, after[name]-before[name], name)
	}

	m.Write("allow.yaml", portPolicy("allow", "ALLOW", `{ports: ["7000", "7002"]}`))
	m.Await("an ALLOW in force refuses what a dry run alone allows", func() bool { return !answered(7001) })
	require.True(t, answered(7000))
	require.False(t, answered(7002))
}

// dryRunsCounted are the statistics of a workload's Envoy about dry runs, by their names. Some of
// what they count is how the mesh looks whether it is there.
func dryRunsCounted(t *testing.T, m *livemesh.Mesh, workload string) map[string]int {
	t.Helper()
	counted := map[string]int{}
	for line := range strings.Lines(m.Admin(workload, "/stats?filter=istio_dry_run")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		number, err := strconv.Atoi(value)
		require.NoError(t, err, line)
		counted[name] = number
	}
	return counted
}
