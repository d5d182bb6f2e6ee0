package features

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestReplicasShareRequestsAsThePolicySays is how the replicas of a service share requests.
func TestReplicasShareRequestsAsThePolicySays(t *testing.T) {
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"),
		livemesh.NewEcho("web", "v1").Replicas(3), livemesh.Service("web", "http:80:8080", "http-alt:8081:8080"),
	))
	balanced := func(policy string) string {
		return rule("web", "host: web\ntrafficPolicy:\n  loadBalancer: "+policy+"\n")
	}
	m.Run("round robin", balanced("{simple: ROUND_ROBIN}"), func(t *testing.T, m *livemesh.Mesh) {
		got := m.Client("client-v1").Tally(60, "http://web/", livemesh.ByPod)
		require.Equal(t, []int{20, 20, 20}, slices.Collect(maps.Values(got)), "%v", got)
	})
	m.Run("random", balanced("{simple: RANDOM}"), func(t *testing.T, m *livemesh.Mesh) {
		got := m.Client("client-v1").Tally(300, "http://web/", livemesh.ByPod)
		requireFair(t, got, 300, 3)
	})
	m.Run("least request, the default", "", func(t *testing.T, m *livemesh.Mesh) {
		got := m.Client("client-v1").Tally(300, "http://web/", livemesh.ByPod)
		requireFair(t, got, 300, 3)
	})
	for _, kind := range []string{"", ", ringHash: {minimumRingSize: 512}", ", maglev: {tableSize: 1009}"} {
		m.Run("hash of a header"+kind, balanced("{consistentHash: {httpHeaderName: x-user"+kind+"}}"),
			func(t *testing.T, m *livemesh.Mesh) {
				testSticky(t, m.Client("client-v1"), "http://web/")
			})
	}
	m.Run("hash of a cookie", balanced("{consistentHash: {httpCookie: {name: session, ttl: 3600s}}}"),
		func(t *testing.T, m *livemesh.Mesh) {
			client := m.Client("client-v1")
			first := client.Get("http://web/")
			cookie := (&http.Response{Header: first.Header}).Cookies()
			require.Len(t, cookie, 1, "%v", first.Header)
			require.Equal(t, 3600, cookie[0].MaxAge)
			for range 20 {
				require.Equal(t, first.Echoed.Hostname,
					client.Get("http://web/", livemesh.Header("cookie", "session="+cookie[0].Value)).Echoed.Hostname)
			}
		})
	m.Run("hash of a query parameter", balanced("{consistentHash: {httpQueryParameterName: user}}"),
		func(t *testing.T, m *livemesh.Mesh) {
			require.Len(t, m.Client("client-v1").Tally(20, "http://web/?user=ann", livemesh.ByPod), 1)
		})
	m.Run("of one port", rule("web", `
host: web
trafficPolicy:
  loadBalancer: {simple: ROUND_ROBIN}
  portLevelSettings:
  - port: {number: 8081}
    loadBalancer: {consistentHash: {httpHeaderName: x-user}}
`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		client := m.Client("client-v1")
		testSticky(t, client, "http://web:8081/")
		require.Len(t, client.Tally(9, "http://web/", livemesh.ByPod, livemesh.Header("x-user", "ann")), 3)
	})
}

// testSticky requires that requests of one user reach one replica, and that users are spread. That
// 40 users share one of three replicas has a chance below 1e-17.
func testSticky(t *testing.T, client *livemesh.Client, url string) {
	t.Helper()
	used := map[string]bool{}
	for user := range 40 {
		got := client.Tally(4, url, livemesh.ByPod, livemesh.Header("x-user", fmt.Sprintf("user-%d", user)))
		require.Len(t, got, 1, "user %d: %v", user, got)
		for pod := range got {
			used[pod] = true
		}
	}
	require.Greater(t, len(used), 1)
}

// requireFair requires that each of some replicas got the share of the requests that chance would
// give it.
func requireFair(t *testing.T, got map[string]int, n, replicas int) {
	t.Helper()
	require.Len(t, got, replicas, "%v", got)
	low, high := binomialBounds(n, 1/float64(replicas))
	for pod, count := range got {
		require.True(t, low <= count && count <= high, "%s got %d of %d, want %d to %d", pod, count, n, low, high)
	}
}
