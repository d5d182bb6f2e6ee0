package change

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCrashFailsOnlyRequestsOfTheCrashed kills one process of a mesh that has two pods of
// everything that it kills, while requests go through it.
//
// Requests for ratings are tried again after any failure (the example's VirtualService says so),
// hence hardly one may fail. Those for reviews have the default retry policy: it tries again where
// it is certain that nothing was executed. So what was in flight at an Envoy that is killed fails.
// And an app killed behind an Envoy that lives goes on failing until its endpoint has gone from
// every proxy, a tenth of a second later: the workload is a phantom until then. After that no
// request may fail in any case.
//
// Each case has a mesh of its own: the example's outlierDetection keeps a pod that failed out for
// fifteen seconds, ready or not.
func TestCrashFailsOnlyRequestsOfTheCrashed(t *testing.T) {
	for _, c := range []struct {
		name, deployment, container string
		retried                     bool
	}{
		{"app whose callers try again", "ratings-v1", "ratings", true},
		{"Envoy whose callers try again", "ratings-v1", "istio-proxy", true},
		{"app", "reviews-v1", "reviews", false},
		{"Envoy", "reviews-v1", "istio-proxy", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := bookinfo(t)
			m := &mesh{t: t, dir: dir}
			service := strings.TrimSuffix(c.deployment, "-v1")
			m.scale(service+".yaml", c.deployment, "2")
			m = start(t, dir)
			load := startLoad(t, []string{m.gateway + "/api/v1/products/0/" + service}, incomplete)
			load.goesOn(t)
			mark := m.screen.mark()
			before, _ := load.count()
			killed := time.Now()
			m.kill(t, c.deployment, c.container)
			m.screen.await(t, mark, `default/`+c.deployment+`-\S+ \(`+c.container+
				`\): crashed: signal: killed; starts again in `)
			m.screen.until(t, mark, "the push without the endpoint", func(lines []string) bool {
				return pushes(lines) > 0
			})
			away := time.Now()
			meanwhile, _ := load.count()
			m.settled(c.deployment, 2)
			m.screen.until(t, mark, "the push with the endpoint", func(lines []string) bool {
				return pushes(lines) > 1
			})
			load.goesOn(t)
			answers, failures := load.report(t)
			t.Logf("the endpoint was out of all proxies %v after the kill", away.Sub(killed).Round(time.Millisecond))
			if c.retried {
				require.LessOrEqual(t, len(failures), unlucky(meanwhile-before+connections))
			}
			late := slices.DeleteFunc(failures, func(f failure) bool { return f.at.Before(away) })
			require.Zero(t, len(late), "of %d requests, after the endpoint had gone", answers)
		})
	}
}

// unlucky is how many of n requests that may meet a dead host may be lost although their callers
// try again: more are once in a million runs. Envoy avoids the host of the attempt before by
// drawing anew, at most five times (host_selection_retry_max_attempts), and of two hosts
// least-request draws the dead one, which is idle, three times in four: it is tried again with
// probability (3/4)^6 = 0.18, three times in a row with 0.006. Some 40 requests meet the dead host
// before its endpoint is gone, more on a busy machine.
func unlucky(n int) (k int) {
	const lost = 0.006
	exactly := math.Pow(1-lost, float64(n)) // the probability that k are
	for upTo := exactly; 1-upTo > 1e-6; upTo += exactly {
		exactly *= float64(n-k) / float64(k+1) * lost / (1 - lost)
		k++
	}
	return k
}

// pushes counts the lines on pushes that moved endpoints.
func pushes(lines []string) (n int) {
	for _, line := range lines {
		if strings.Contains(line, "push ") && strings.Contains(line, "EndpointSlice") {
			n++
		}
	}
	return n
}

// kill ends one process of a Deployment as the kernel would, without warning. Envoys are told by
// their bootstrap's path, which has the pod's name, and apps by their standing for the Deployment's
// version.
func (m *mesh) kill(t *testing.T, deployment, container string) {
	t.Helper()
	for _, p := range m.children() {
		command := commandOf(p.pid)
		app, version, _ := strings.Cut(deployment, "-")
		isEnvoy := strings.Contains(command, "/"+deployment+"-") && strings.Contains(command, "envoy.json")
		isApp := strings.Contains(command, "--role="+app) && strings.Contains(command, "--version="+version)
		if container == "istio-proxy" && isEnvoy || container == app && isApp {
			pid, err := strconv.Atoi(p.pid)
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			return
		}
	}
	require.Fail(t, "no such process", "%s of %s", container, deployment)
}
