package features

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

func TestTimeoutsRetriesAndLimitsHold(t *testing.T) {
	m := webMesh(t)
	t.Run("timeout", func(t *testing.T) { testTimeout(t, m.With(t)) })
	t.Run("fault", func(t *testing.T) { testFault(t, m.With(t)) })
	t.Run("default retries", func(t *testing.T) { testDefaultRetries(t, m.With(t)) })
	t.Run("explicit retries", func(t *testing.T) { testExplicitRetries(t, m.With(t)) })
	t.Run("connection pool", func(t *testing.T) { testConnectionPool(t, m.With(t)) })
	t.Run("outlier detection", func(t *testing.T) { testOutlierDetection(t, m.With(t)) })
}

func testTimeout(t *testing.T, m *livemesh.Mesh) {
	m.Run("ends a slow request", virtual("web", `
hosts: [web]
http:
- timeout: 100ms
  route: [`+subset("v1")+`]
`), func(t *testing.T, m *livemesh.Mesh) {
		client := m.Client("client-v1")
		requireStatus(t, 504, client.Get("http://web/delay/20000"))
		m.Await("an answer that is in time", func() bool {
			return client.Get("http://web/delay/1").Echoed.Version == "v1"
		})
	})
}

func testFault(t *testing.T, m *livemesh.Mesh) {
	fault := func(fault string) string {
		return virtual("web", "hosts: [web]\nhttp:\n- fault: "+fault+"\n  route: ["+subset("v1")+"]\n")
	}
	m.Run("abort all", fault(`{abort: {httpStatus: 418, percentage: {value: 100}}}`),
		func(t *testing.T, m *livemesh.Mesh) {
			client := m.Client("client-v1")
			for range 20 {
				requireStatus(t, 418, client.Get("http://web/"))
			}
		})
	m.Run("abort none", fault(`{abort: {httpStatus: 418, percentage: {value: 0}}}`),
		func(t *testing.T, m *livemesh.Mesh) {
			client := m.Client("client-v1")
			for range 20 {
				requireVersion(t, "v1", client.Get("http://web/"))
			}
		})
	m.Run("abort some", fault(`{abort: {httpStatus: 418, percentage: {value: 25}}}`),
		func(t *testing.T, m *livemesh.Mesh) {
			got := m.Client("client-v1").Tally(400, "http://web/", livemesh.ByVersion)
			low, high := binomialBounds(400, 0.25)
			require.True(t, low <= got["418"] && got["418"] <= high, "%v, want %d to %d aborted", got, low, high)
			require.Equal(t, 400, got["418"]+got["v1"], "%v", got)
		})
	m.Run("delay all", fault(`{delay: {fixedDelay: 10ms, percentage: {value: 100}}}`),
		func(t *testing.T, m *livemesh.Mesh) {
			requireVersion(t, "v1", m.Client("client-v1").Get("http://web/"))
		})
	m.Run("delay none", fault(`{delay: {fixedDelay: 600s, percentage: {value: 0}}}`),
		func(t *testing.T, m *livemesh.Mesh) {
			requireVersion(t, "v1", m.Client("client-v1").Get("http://web/"))
		})
	server := newRecorder(t)
	m.Run("delay some routes", livemesh.File("entry.yaml", server.entry("slow.test"))+virtual("slow", `
hosts: [slow.test]
http:
- match: [{uri: {prefix: /delayed}}]
  fault: {delay: {fixedDelay: 600s, percentage: {value: 100}}}
  route: [{destination: {host: slow.test}}]
- route: [{destination: {host: slow.test}}]
`), func(t *testing.T, m *livemesh.Mesh) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		client := m.Client("client-v1")
		delayed := make(chan livemesh.Answer)
		go func() { delayed <- client.Do(ctx, "http://slow.test/delayed") }()
		for range 50 {
			requireVersion(t, "recorder", client.Get("http://slow.test/"))
		}
		cancel()
		require.ErrorIs(t, (<-delayed).Err, context.Canceled)
		require.Zero(t, server.count("/delayed"))
	})
}

// testDefaultRetries: nobody wrote a policy, and still no caller sees a replica that is not there.
func testDefaultRetries(t *testing.T, m *livemesh.Mesh) {
	// A request is lost all the same if each of its attempts draws the dead replica, and each
	// attempt draws up to six times. Of two replicas that is one in 4,096 of those that met it at
	// first, which is seen now and then; so there are more.
	m.Run("a replica that refuses connections", livemesh.File("pair.yaml",
		livemesh.NewEcho("pair", "good").Bare().Replicas(3), livemesh.NewEcho("pair", "bad").Bare().Refusing(9999),
		livemesh.Service("pair", "http:80:8080"),
	), func(t *testing.T, m *livemesh.Mesh) {
		attempts := map[string]int{}
		client := m.Client("client-v1")
		for range 60 {
			a := client.Get("http://pair/")
			requireVersion(t, "good", a)
			attempts[a.Echoed.Headers.Get("x-envoy-attempt-count")]++
		}
		require.Positive(t, attempts["2"], "no request was tried at the bad replica first: %v", attempts)
	})
	m.Run("a replica that crashes", livemesh.File("pair.yaml",
		livemesh.NewEcho("pair", "v1").Bare().Replicas(3), livemesh.Service("pair", "http:80:8080"),
	), func(t *testing.T, m *livemesh.Mesh) {
		client := m.Client("client-v1")
		require.Len(t, client.Tally(60, "http://pair/", livemesh.ByPod), 3)
		for _, victim := range m.PodsOf("pair-v1") {
			// A request that is under way when a process dies is lost, and may have been served; so
			// there is none.
			kill(t, victim, "echo")
			require.True(t, client.Get("http://web/").OK(), "the sidecar has seen the connections end that it kept")
			got := client.Tally(30, "http://pair/", livemesh.ByPod)
			require.Zero(t, got["503"], "%v", got)
			m.AwaitPods("pair-v1", func(pods []local.PodStatus) bool {
				again := slices.IndexFunc(pods, func(p local.PodStatus) bool {
					return p.Name == victim.Name && p.Restarts > victim.Restarts
				})
				return len(pods) == 3 && again >= 0 && pods[0].Ready && pods[1].Ready && pods[2].Ready
			})
			m.Settle()
		}
	})
	m.Run("an answer of 500 is not tried again", virtual("web", `
hosts: [web]
http:
- route: [`+subset("v1")+`]
`), func(t *testing.T, m *livemesh.Mesh) {
		requireStatus(t, 500, m.Client("client-v1").Get("http://web/status/500"))
	})
}

func testExplicitRetries(t *testing.T, m *livemesh.Mesh) {
	server := newRecorder(t)
	policy := func(retries string) string {
		return livemesh.File("flaky.yaml", server.entry("flaky.test")) + virtual("flaky", fmt.Sprintf(`
hosts: [flaky.test]
http:
- retries: %s
  timeout: 20s
  route: [{destination: {host: flaky.test}}]
`, retries))
	}
	m.Run("of an answer", policy(`{attempts: 3, retryOn: 5xx}`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		client := m.Client("client-v1")
		server.answers(failFirst(2))
		a := client.Get("http://flaky.test/twice")
		require.True(t, a.OK(), "%s", a)
		require.Equal(t, []string{"1", "2", "3"}, attempts(server, "/twice"))

		server.answers(failFirst(100))
		requireStatus(t, 500, client.Get("http://flaky.test/always"))
		require.Equal(t, []string{"1", "2", "3", "4"}, attempts(server, "/always"))
	})
	m.Run("of a try that takes too long", policy(`{attempts: 15, perTryTimeout: 1s, retryOn: "5xx"}`),
		func(t *testing.T, m *livemesh.Mesh) {
			var tries atomic.Int32
			server.answers(func(_ http.ResponseWriter, r *http.Request) bool {
				if tries.Add(1) == 1 {
					<-r.Context().Done()
					return true
				}
				return false
			})
			a := m.Client("client-v1").Get("http://flaky.test/slow")
			require.True(t, a.OK(), "%s", a)
			made := attempts(server, "/slow") // more than two, where the machine takes a second for one
			require.GreaterOrEqual(t, len(made), 2)
			require.Equal(t, []string{"1", "2"}, made[:2])
		})
	m.Run("of a status code", policy(`{attempts: 2, retryOn: "418"}`), func(t *testing.T, m *livemesh.Mesh) {
		var tries atomic.Int32
		server.answers(func(w http.ResponseWriter, _ *http.Request) bool {
			if tries.Add(1) == 1 {
				w.WriteHeader(418)
				return true
			}
			return false
		})
		require.True(t, m.Client("client-v1").Get("http://flaky.test/teapot").OK())
		require.Equal(t, 2, server.count("/teapot"))
	})
	m.Run("none", policy(`{attempts: 0}`), func(t *testing.T, m *livemesh.Mesh) {
		server.answers(failFirst(100))
		requireStatus(t, 500, m.Client("client-v1").Get("http://flaky.test/once"))
		require.Equal(t, 1, server.count("/once"))
	})
}

// failFirst answers the first n requests with 500.
func failFirst(n int32) func(http.ResponseWriter, *http.Request) bool {
	var count atomic.Int32
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if count.Add(1) > n {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}
}

// attempts are the numbers of the attempts that a server saw, as the proxies count them.
func attempts(r *recorder, path string) []string {
	var counts []string
	for _, req := range r.requests(path) {
		counts = append(counts, req.Header.Get("x-envoy-attempt-count"))
	}
	return counts
}

func testConnectionPool(t *testing.T, m *livemesh.Mesh) {
	server := newRecorder(t)
	m.Run("overflow", livemesh.File("narrow.yaml", server.entry("narrow.test"))+rule("narrow", `
host: narrow.test
trafficPolicy:
  connectionPool:
    tcp: {maxConnections: 1}
    http: {http1MaxPendingRequests: 1, maxRetries: 1}
`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		client := m.Client("client-v1")
		// while the connection is made, its request counts as waiting
		requireStatus(t, 200, client.Get("http://narrow.test/first"))
		release := make(chan struct{})
		server.answers(func(http.ResponseWriter, *http.Request) bool { <-release; return false })
		const sent = 5
		answers := make(chan livemesh.Answer, sent)
		for range sent {
			go func() { answers <- client.Get("http://narrow.test/held") }()
		}
		for range sent - 2 { // one has the connection, another waits for it
			a := <-answers
			requireStatus(t, 503, a)
			require.Equal(t, "true", a.Header.Get("x-envoy-overloaded"), "%s", a)
			require.Contains(t, a.Body, "overflow")
		}
		close(release)
		requireStatus(t, 200, <-answers)
		requireStatus(t, 200, <-answers)
		require.Equal(t, 2, server.count("/held"))
	})
}

func testOutlierDetection(t *testing.T, m *livemesh.Mesh) {
	m.Run("a replica that fails is left out", livemesh.File("trio.yaml",
		livemesh.NewEcho("trio", "v1").Replicas(3), livemesh.Service("trio", "http:80:8080"),
	)+rule("trio", `
host: trio
trafficPolicy:
  loadBalancer: {simple: ROUND_ROBIN}
  outlierDetection: {consecutive5xxErrors: 3, interval: 100ms, baseEjectionTime: 600s, maxEjectionPercent: 50}
`)+virtual("trio", `
hosts: [trio]
http:
- retries: {attempts: 0}
  route: [{destination: {host: trio}}]
`), func(t *testing.T, m *livemesh.Mesh) {
		m.RequireNoProblems()
		sick := m.Pod("trio-v1")
		fall(t, sick)
		client := m.Client("client-v1")
		bySickness := func(a livemesh.Answer) string {
			require.Equal(t, !a.OK(), a.Header.Get("x-sample-host") == sick.Name, "%s", a)
			return fmt.Sprint(a.Status)
		}
		require.Equal(t, map[string]int{"200": 4, "503": 2}, client.Tally(6, "http://trio/health", bySickness))
		m.Await("its ejection", func() bool {
			return client.Tally(9, "http://trio/health", bySickness)["503"] == 0
		})
		require.Equal(t, map[string]int{"200": 60}, client.Tally(60, "http://trio/health", bySickness))
	})
}

// fall makes a pod's process answer /health with 503; nobody probes it.
func fall(t *testing.T, p local.PodStatus) {
	t.Helper()
	resp, err := http.Post("http://"+netip.AddrPortFrom(p.App, 8080).String()+"/health?ok=false", "", nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()
}

// kill ends one of a pod's processes without warning, and waits until it is gone.
func kill(t *testing.T, p local.PodStatus, process string) {
	t.Helper()
	i := slices.IndexFunc(p.Processes, func(s local.ProcessStatus) bool { return s.Name == process && s.PID != 0 })
	require.GreaterOrEqual(t, i, 0, "%s has no process %s", p.Name, process)
	require.NoError(t, syscall.Kill(p.Processes[i].PID, syscall.SIGKILL))
	require.Eventually(t, func() bool {
		return syscall.Kill(p.Processes[i].PID, 0) == syscall.ESRCH
	}, time.Minute, time.Millisecond)
}
