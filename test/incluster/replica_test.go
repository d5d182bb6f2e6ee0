package incluster

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/port"
)

type collector = assert.CollectT

// lease is how long a replica that has died still leads: long enough for a busy machine, on which
// one that lives may not come to renew its lease for seconds, and short for a test that waits for
// it once.
const lease = "12s"

// replica is one process of the control plane.
type replica struct {
	command *exec.Cmd
	ended   chan struct{}
	ports   map[string]int

	mu  sync.Mutex
	log strings.Builder
}

// start runs a replica with the rights of Lateen's service account, which a kubeconfig says.
func (c *cluster) start(t *testing.T, flags ...string) *replica {
	return c.startAs(t, "istiod", flags...)
}

// startAs runs a replica with the rights of a service account.
func (c *cluster) startAs(t *testing.T, account string, flags ...string) *replica {
	return c.run(t, func(args []string) *exec.Cmd {
		args = append(append(args, flags...), "--kubeconfig", c.kubeconfigOf(t, account))
		return exec.Command(c.server, args...)
	})
}

// run runs a replica by a command for its arguments.
func (c *cluster) run(t *testing.T, command func(args []string) *exec.Cmd) *replica {
	r := &replica{ended: make(chan struct{}), ports: map[string]int{}}
	line := []string{"serve", "--write", "--lease-duration", lease}
	for _, name := range []string{"health", "webhook", "secure-xds", "xds", "monitoring", "log-control"} {
		held, err := port.Reserve()
		require.NoError(t, err)
		t.Cleanup(held.Release)
		r.ports[name] = int(netip.MustParseAddrPort(held.Address).Port())
		line = append(line, fmt.Sprintf("--%s-address=%s", name, held.Address))
	}
	r.command = command(line)
	r.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := r.command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, r.command.Start())
	go r.keep(output)
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			t.Log(r.said())
		}
	})
	return r
}

func (r *replica) keep(output io.Reader) {
	defer close(r.ended)
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r.mu.Lock()
		r.log.WriteString(lines.Text() + "\n")
		r.mu.Unlock()
	}
}

func (r *replica) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

func (r *replica) kill() { r.end(os.Kill) }

// stop ends the process in good order.
func (r *replica) stop() { r.end(os.Interrupt) }

func (r *replica) end(s os.Signal) {
	_ = r.command.Process.Signal(s) // it may have ended
	<-r.ended
	_ = r.command.Wait()
}

func (r *replica) port(t *testing.T, name string) int64 {
	require.NotZero(t, r.ports[name])
	return int64(r.ports[name])
}

func (r *replica) fetch(name, path string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("http://127.0.0.1:%d%s", r.ports[name], path), nil)
	if err != nil {
		return 0, err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

func (r *replica) ready(t *testing.T) {
	t.Helper()
	r.await(t, func(c require.TestingT) {
		code, body := r.fetch("health", "/ready")
		require.Equal(c, http.StatusOK, code, body)
	})
}

// metric is the value of one series; -1 without it.
func (r *replica) metric(series string) float64 {
	_, body := r.fetch("monitoring", "/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				return v
			}
		}
	}
	return -1
}

// counts waits until metrics have moved that only a replica in a cluster has.
func (r *replica) counts(t *testing.T) {
	t.Helper()
	for _, series := range []string{
		"citadel_server_csr_count", "citadel_server_success_cert_issuance_count",
		"citadel_server_root_cert_expiry_timestamp", "citadel_server_root_cert_expiry_seconds",
		"citadel_server_cert_chain_expiry_timestamp", "citadel_server_cert_chain_expiry_seconds",
		"galley_validation_config_updates", `lateen_ca_root_writes_total{result="written"}`,
		"lateen_serving_certificate_expiry_seconds", `lateen_watch_events_total{result="used",type="Service"}`,
		`galley_validation_passed{group="networking.istio.io",resource="virtualservices",version="v1"}`,
		`galley_validation_failed{group="networking.istio.io",reason="invalid_resource",` +
			`resource="virtualservices",version="v1"}`,
	} {
		r.await(t, func(c require.TestingT) { require.Positive(c, r.metric(series), series) })
	}
}

// wrote waits until a replica has counted so many statuses that it has written: it counts one when
// the API server has answered, by when others may have seen it.
func (r *replica) wrote(t *testing.T, n float64) {
	t.Helper()
	r.await(t, func(c require.TestingT) {
		require.Equal(c, n, r.metric(`lateen_status_writes_total{result="written"}`))
	})
}

func (r *replica) leads(t *testing.T) {
	t.Helper()
	r.await(t, func(c require.TestingT) { require.Equal(c, 1.0, r.metric("lateen_leader")) })
}

// await waits for something that a running process does.
func (r *replica) await(t *testing.T, f func(require.TestingT)) {
	t.Helper()
	ended := false
	eventually(t, func(c require.TestingT) {
		select {
		case <-r.ended:
			ended = true // and this is reported below
		default:
			f(c)
		}
	})
	require.False(t, ended, "the process has ended")
}
