package agent

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// maxResident is what an agent may have of memory once it serves, in kB.
const maxResident = 15_000

// TestARequestPassesWhatTheAgentRuns: a gateway's agent gets its configuration from the control
// plane, and starts an Envoy that serves. The agent is small, merges metrics, drains, and ends
// well.
func TestARequestPassesWhatTheAgentRuns(t *testing.T) {
	p := newPod(t)
	p.serve(application(t))
	c := p.run("ISTIO_META_DNS_CAPTURE=true", "DNS_PROXY_ADDR=127.0.0.1:"+strconv.Itoa(p.ports.dns))
	c.await()
	require.Equal(t, "hello", p.get(p.ports.web, "/"))

	t.Run("metrics of both", func(t *testing.T) {
		merged := p.get(p.ports.status, "/stats/prometheus")
		require.Contains(t, merged, "\nistio_agent_xds_proxy_responses ")
		require.Contains(t, merged, "\nlateen_agent_connected 1\n")
		require.Contains(t, merged, "\nenvoy_cluster_manager_cds_update_success{} 1\n")
	})
	t.Run("DNS", func(t *testing.T) {
		r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+strconv.Itoa(p.ports.dns))
		}}
		_, _ = r.LookupHost(t.Context(), "app.test") // whatever the resolvers of this machine say
		require.NotContains(t, p.get(p.ports.status, "/metrics"), "\nistio_agent_dns_requests_total 0\n")
	})
	t.Run("memory", func(t *testing.T) {
		require.Less(t, residentOf(t, c.cmd.Process.Pid), maxResident)
	})
	t.Run("the admin interface", func(t *testing.T) {
		out, err := exec.Command(binaries.agent, "request", "--debug-port", strconv.Itoa(p.ports.admin), "GET",
			"/ready").Output()
		require.NoError(t, err)
		require.Equal(t, "LIVE\n", string(out))
	})
	require.NoError(t, c.stop(), c.log.String())
	require.Contains(t, c.log.String(), "msg=draining for=100ms")
}

// residentOf returns the kB of a process.
func residentOf(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	require.NoError(t, err)
	t.Log(strings.Join(strings.Fields(string(status[strings.Index(string(status), "VmHWM"):])), " ")[:120])
	_, rest, found := strings.Cut(string(status), "VmRSS:")
	require.True(t, found)
	kB, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kB
}

// TestAContainerStartsWithoutTheControlPlane: one that starts again while the control plane is away
// serves what it had.
func TestAContainerStartsWithoutTheControlPlane(t *testing.T) {
	p := newPod(t)
	lateen := p.serve(application(t))
	c := p.run()
	c.await()
	require.Equal(t, "hello", p.get(p.ports.web, "/"))
	require.NoError(t, c.stop(), c.log.String())
	lateen.Stop(t)
	c = p.run()
	c.await()
	require.Equal(t, "hello", p.get(p.ports.web, "/"))
	require.NoError(t, c.stop(), c.log.String())
}

// TestASidecarServesItsApplication: the application calls others through its sidecar, and the agent
// asks it what the kubelet and Prometheus want to know.
func TestASidecarServesItsApplication(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/alive":
			_, _ = io.WriteString(w, "alive")
		case "/metrics":
			_, _ = io.WriteString(w, "app_requests_total 7\n")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer app.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(app.URL, "http://"))
	require.NoError(t, err)
	p := newPod(t)
	p.kind = "sidecar"
	p.serve(application(t))
	c := p.run(
		"ISTIO_META_INTERCEPTION_MODE=NONE", "ISTIO_META_HTTP_PROXY_PORT="+strconv.Itoa(p.ports.web),
		`ISTIO_KUBE_APP_PROBERS={"/app-health/web/livez":{"httpGet":{"path":"/alive","port":`+port+`}},
			"/app-health/web/readyz":{"httpGet":{"path":"/ready","port":`+port+`}}}`,
		`ISTIO_PROMETHEUS_ANNOTATIONS={"scrape":"true","port":"`+port+`"}`)
	c.await()
	proxy := &url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(p.ports.web)}
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		response, err := client.Get("http://app.test/")
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, "hello", string(body))
	}, patience, 20*time.Millisecond)

	require.Equal(t, "alive", p.get(p.ports.status, "/app-health/web/livez"))
	response, err := http.Get("http://127.0.0.1:" + strconv.Itoa(p.ports.status) + "/app-health/web/readyz")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	merged := p.get(p.ports.status, "/stats/prometheus")
	require.Contains(t, merged, "\nistio_agent_xds_proxy_responses ")
	require.Contains(t, merged, "\nenvoy_server_live{} 1\n")
	require.Contains(t, merged, "\napp_requests_total 7\n")
	require.NoError(t, c.stop(), c.log.String())
}

// TestAPodWaitsForTheControlPlane: one that starts before it is not ready, and says why; it is
// ready when the control plane has come.
func TestAPodWaitsForTheControlPlane(t *testing.T) {
	p := newPod(t)
	address := "127.0.0.1:" + strconv.Itoa(freePort(t))
	p.at(address)
	c := p.run()
	p.get(p.ports.admin, "/server_info")
	response, err := http.Get("http://127.0.0.1:" + strconv.Itoa(p.ports.status) + "/healthz/ready")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	why, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Equal(t, "no configuration has come from the control plane yet\n", string(why))
	p.serveAt(address, application(t))
	c.await()
	require.Equal(t, "hello", p.get(p.ports.web, "/"))
}

// TestADrainWaitsForRequests: with EXIT_ON_ZERO_ACTIVE_CONNECTIONS a request that runs when the Pod
// is told to end gets its answer, and then the Pod ends.
func TestADrainWaitsForRequests(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(arrived)
			<-answer
		}
		_, _ = io.WriteString(w, "hello")
	}))
	defer slow.Close()
	p := newPod(t)
	p.serve(strings.TrimPrefix(slow.URL, "http://"))
	c := p.run("EXIT_ON_ZERO_ACTIVE_CONNECTIONS=true", "MINIMUM_DRAIN_DURATION=1ms")
	c.await()
	p.get(p.ports.web, "/")
	got := make(chan string, 1)
	go func() {
		response, err := http.Get("http://127.0.0.1:" + strconv.Itoa(p.ports.web) + "/slow")
		if err != nil {
			got <- err.Error()
			return
		}
		defer func() { _ = response.Body.Close() }()
		body, _ := io.ReadAll(response.Body)
		got <- string(body) + " and close: " + strconv.FormatBool(response.Close)
	}()
	<-arrived
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool {
		return strings.Contains(c.log.String(), "msg=draining connections=")
	}, patience, 20*time.Millisecond)
	require.Empty(t, got)
	close(answer)
	require.Equal(t, "hello and close: true", <-got)
	require.NoError(t, c.wait(), c.log.String())
}

// TestTheContainerEndsWithEnvoy: the kubelet starts it anew.
func TestTheContainerEndsWithEnvoy(t *testing.T) {
	p := newPod(t)
	c := p.run()
	var rest string
	require.Eventually(t, func() (found bool) {
		_, rest, found = strings.Cut(c.log.String(), `msg="Envoy started" pid=`)
		return found
	}, patience, 20*time.Millisecond)
	pid, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.ErrorContains(t, c.wait(), "exit status 1")
	require.Contains(t, c.log.String(), "the Envoy was killed: most often the container has reached its memory limit")
}

// TestNativeSidecarsDrainTwice: /drain comes when the Pod begins to end, SIGTERM when the
// application has ended.
func TestNativeSidecarsDrainTwice(t *testing.T) {
	p := newPod(t)
	c := p.run("EXIT_ON_ZERO_ACTIVE_CONNECTIONS=true", "MINIMUM_DRAIN_DURATION=1h")
	p.get(p.ports.admin, "/server_info")
	out, err := exec.Command(binaries.agent, "request", "--debug-port", strconv.Itoa(p.ports.status), "POST",
		"drain").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, c.stop(), c.log.String())
}

// TestBadSettingsEndTheStart: the message says which, and nothing is started.
func TestBadSettingsEndTheStart(t *testing.T) {
	c := newPod(t).run("EXIT_ON_ZERO_ACTIVE_CONNECTIONS=perhaps")
	require.ErrorContains(t, c.wait(), "exit status 1")
	require.Equal(t, "lateen-agent: EXIT_ON_ZERO_ACTIVE_CONNECTIONS: \"perhaps\" is neither true nor false\n",
		c.log.String())
}
