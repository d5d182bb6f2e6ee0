package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

// patience is how long anything may take that should happen in a moment.
const patience = time.Minute

// binaries are where TestMain has built them, by name.
var binaries struct{ lateen, agent string }

func TestMain(m *testing.M) { os.Exit(lateenserve.Main(build, m.Run)) }

// build builds the binaries as the Makefile does.
func build(dir string) (err error) {
	binaries.agent = filepath.Join(dir, "lateen-agent")
	out, err := lateenserve.GoBuild("-ldflags", "-s -w", "-o", binaries.agent,
		"github.com/lateen-mesh/lateen/cmd/lateen-agent").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	binaries.lateen, err = lateenserve.Build(dir)
	return err
}

// ports of a Pod, by what they are for.
type ports struct{ admin, status, ready, metrics, dns, web int }

// pod is a directory that stands for the file system of a container.
type pod struct {
	t     *testing.T
	dir   string
	kind  string // of proxy
	ports ports
	env   []string
}

func freePort(t *testing.T) (number int) {
	t.Helper()
	p, err := port.Reserve()
	require.NoError(t, err)
	t.Cleanup(p.Release)
	_, text, err := net.SplitHostPort(p.Address)
	require.NoError(t, err)
	number, err = strconv.Atoi(text)
	require.NoError(t, err)
	return number
}

// newPod returns the Pod of a gateway, whose control plane is nowhere.
func newPod(t *testing.T) *pod {
	t.Helper()
	p := &pod{t: t, dir: t.TempDir(), kind: "router", ports: ports{
		admin: freePort(t), status: freePort(t), ready: freePort(t), metrics: freePort(t), dns: freePort(t),
		web: freePort(t),
	}}
	p.write("etc/istio/pod/labels", "app=\"edge\"\n")
	p.env = []string{
		"PATH=" + os.Getenv("PATH"), "POD_NAME=edge-0", "POD_NAMESPACE=default", "INSTANCE_IP=127.0.0.1",
		"SERVICE_ACCOUNT=edge",
		fmt.Sprint("ENVOY_STATUS_PORT=", p.ports.ready), fmt.Sprint("ENVOY_PROMETHEUS_PORT=", p.ports.metrics),
	}
	p.at("127.0.0.1:1")
	return p
}

// at tells the Pod where the control plane is, in plaintext.
func (p *pod) at(controlPlane string) { p.over(controlPlane, "NONE") }

func (p *pod) over(controlPlane, policy string) {
	p.env = append(p.env, fmt.Sprintf(`PROXY_CONFIG={"binaryPath":%q,"discoveryAddress":%q,
		"controlPlaneAuthPolicy":%q,"statusPort":%d,"proxyAdminPort":%d,"terminationDrainDuration":"0.1s",
		"concurrency":1}`, realenvoy.Binary(p.t), controlPlane, policy, p.ports.status, p.ports.admin))
}

func (p *pod) write(name, text string) {
	p.t.Helper()
	file := filepath.Join(p.dir, name)
	require.NoError(p.t, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(p.t, os.WriteFile(file, []byte(text), 0o600))
}

// manifests are a mesh whose gateway sends all requests to an application.
func (p *pod) manifests(application string) string {
	_, applicationPort, err := net.SplitHostPort(application)
	require.NoError(p.t, err)
	dir := p.t.TempDir()
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, "mesh.yaml"), fmt.Appendf(nil, `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: default}
spec:
  selector: {app: edge}
  servers:
  - port: {number: %d, name: http, protocol: HTTP}
    hosts: ["*"]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: app, namespace: default}
spec:
  hosts: [app.test]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: 127.0.0.1, ports: {http: %s}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: app, namespace: default}
spec:
  hosts: ["*"]
  gateways: [edge]
  http: [{route: [{destination: {host: app.test, port: {number: 80}}}]}]
`, p.ports.web, applicationPort), 0o600))
	return dir
}

// serve starts a control plane whose gateway sends all requests to an application, and tells the
// Pod where it is.
func (p *pod) serve(application string) *lateenserve.Process {
	p.t.Helper()
	lateen := p.serveAt("127.0.0.1:0", application)
	p.at(lateen.XDS)
	return lateen
}

// serveAt starts such a control plane at an address.
func (p *pod) serveAt(address, application string) *lateenserve.Process {
	p.t.Helper()
	return lateenserve.Start(p.t, lateenserve.Options{Binary: binaries.lateen, Args: []string{
		"--config-dir", p.manifests(application), "--state-dir", p.t.TempDir(), "--xds-address", address,
	}})
}

// container is a running agent.
type container struct {
	pod   *pod
	cmd   *exec.Cmd
	log   output
	ended chan struct{}
	err   error // valid after ended
}

// output may be read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run starts the Pod's agent, until the test ends.
func (p *pod) run(env ...string) *container {
	p.t.Helper()
	lateenserve.LookAtSources(p.t)
	c := &container{pod: p, ended: make(chan struct{})}
	c.cmd = exec.Command(binaries.agent, "proxy", p.kind, "--domain", "default.svc.cluster.local")
	c.cmd.Dir, c.cmd.Env = p.dir, slices.Concat(p.env, env)
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	require.NoError(p.t, c.cmd.Start())
	go func() { c.err = c.cmd.Wait(); close(c.ended) }()
	p.t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // Envoy ends with its agent
		<-c.ended
		if p.t.Failed() {
			p.t.Logf("the agent's log:\n%s", c.log.String())
		}
	})
	return c
}

// await waits until the proxy is ready, as a container's postStart does.
func (c *container) await() {
	c.pod.t.Helper()
	url := fmt.Sprintf("--url=http://127.0.0.1:%d/healthz/ready", c.pod.ports.ready)
	out, err := exec.Command(binaries.agent, "wait", url, "--periodMillis=20").CombinedOutput()
	require.NoError(c.pod.t, err, "%s\n%s", out, c.log.String())
}

// stop ends the container as the kubelet does, and returns how it ended.
func (c *container) stop() error {
	c.pod.t.Helper()
	require.NoError(c.pod.t, c.cmd.Process.Signal(syscall.SIGTERM))
	return c.wait()
}

// wait returns how the container has ended.
func (c *container) wait() error {
	c.pod.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		require.Fail(c.pod.t, "the agent does not end", c.log.String())
	}
	return c.err
}

// get asks a port of the Pod until it answers with 200, and returns the answer.
func (p *pod) get(port int, path string) string {
	p.t.Helper()
	var body string
	require.EventuallyWithT(p.t, func(t *assert.CollectT) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, response.StatusCode, string(text))
		body = string(text)
	}, patience, 20*time.Millisecond)
	return body
}

// application starts one that greets, and returns its address.
func application(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}
