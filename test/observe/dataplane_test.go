package observe

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
	"github.com/lateen-mesh/lateen/internal/testkit/realprometheus"
	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

// TestEachPanelOfTheDataPlaneHasData runs `lateen up --observe` on the example with real Envoys,
// and sends requests, until each query of the dashboard has a number in the Prometheus that it
// runs; its rules are evaluated too.
func TestEachPanelOfTheDataPlaneHasData(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs a mesh of real Envoys and Prometheus")
	}
	m := startUp(t)
	all := append(panels(t, dataPlane), question{"rules", "lateen:proxies:sum > 5"})
	patient, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for round := 0; len(all) > 0 || *pictures != "" && time.Since(m.prometheus.Began) < pictured; round++ {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		}
		m.call(t, round)
		if round%10 != 0 {
			continue
		}
		all = slices.DeleteFunc(all, func(q question) bool {
			has, err := m.prometheus.hasData(t.Context(), q.query)
			require.NoError(t, err, q.at)
			return has
		})
		if len(all) > 0 && patient.Err() != nil {
			t.Fatalf("no data: %q", all)
		}
	}
	m.dashboardLeadsToEnvoy(t)
	if *pictures != "" {
		draw(t, m.prometheus, dataPlane)
	}
}

// dashboardLeadsToEnvoy has `lateen dashboard` find the admin page of a proxy.
func (m *up) dashboardLeadsToEnvoy(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), m.binary, "dashboard", "envoy", m.pod+".default", "--prometheus",
		"http://"+m.prometheus.Address).CombinedOutput()
	require.NoError(t, err, "%s", out)
	response, err := m.client.Get(strings.TrimSpace(string(out)) + "server_info")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	info, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, string(info), m.pod)
}

// up is a mesh that `lateen up --observe` runs.
type up struct {
	binary       string
	gateway      string // URL
	pod, details string // one pod's name, and its address
	prometheus   *prometheus
	client       http.Client
}

// Lines that `lateen up` prints.
var (
	podLine        = regexp.MustCompile(`^default +(details-v1-\S+) +yes +(\S+)`)
	gatewayLine    = regexp.MustCompile(`^gateway +(http://\S+)`)
	prometheusLine = regexp.MustCompile(`^prometheus +http://(\S+)`)
)

func startUp(t *testing.T) *up {
	t.Helper()
	dir := t.TempDir()
	binary, err := lateenserve.BuildCommands(dir)
	require.NoError(t, err)
	manifests := filepath.Join(dir, "shop")
	require.NoError(t, os.CopyFS(manifests, os.DirFS("../../examples/bookinfo")))
	require.NoError(t, os.WriteFile(filepath.Join(manifests, "more.yaml"), []byte(moreOfTheShop), 0o600))
	lateenserve.LookAtSources(t)
	cmd := exec.Command(binary, "up", manifests, "--free-ports", "--state-dir", filepath.Join(dir, "state"),
		"--envoy", realenvoy.Binary(t), "--observe", "--prometheus", tool.Path(t, "prometheus", "prometheus"))
	screen, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails only if it has exited
		_ = cmd.Wait()
	})
	m := &up{binary: binary, client: http.Client{Timeout: 5 * time.Second}}
	t.Cleanup(m.client.CloseIdleConnections)
	for lines := bufio.NewScanner(screen); m.prometheus == nil; {
		require.True(t, lines.Scan(), "lateen up has ended: %v", lines.Err())
		t.Log(lines.Text())
		if found := podLine.FindStringSubmatch(lines.Text()); found != nil {
			m.pod, m.details = found[1], found[2]
		}
		if found := gatewayLine.FindStringSubmatch(lines.Text()); found != nil {
			m.gateway = found[1]
		}
		if found := prometheusLine.FindStringSubmatch(lines.Text()); found != nil {
			m.prometheus = &prometheus{realprometheus.At(t, found[1])}
		}
	}
	go func() { _, _ = io.Copy(io.Discard, screen) }() // it ends with the process
	require.NotEmpty(t, m.gateway)
	require.NotEmpty(t, m.details)
	return m
}

// call sends requests: a page, which makes calls of its own, an error, and one that passes no proxy
// of a caller. What they are answered is what the dashboard is about.
func (m *up) call(t *testing.T, round int) {
	t.Helper()
	ask := func(url, host string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		r.Host = host
		if response, err := m.client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}
	ask(m.gateway+"/productpage", "")
	if round%10 == 0 {
		ask(m.gateway+"/status/503", "errors.test")
		ask("http://"+m.details+":9080/details/0", "details")
	}
}

// moreOfTheShop is a way to errors, a service of TCP, and what calls it.
const moreOfTheShop = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: errors}
spec:
  hosts: [errors.test]
  gateways: [bookinfo]
  http: [{route: [{destination: {host: ratings, port: {number: 9080}}}]}]
---
apiVersion: v1
kind: Service
metadata: {name: store}
spec: {selector: {app: store}, ports: [{name: tcp, port: 9000}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: store}
spec:
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec: {containers: [{name: app, image: lateen/sample, args: [--tcp=9000], ports: [{containerPort: 9000}]}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: clerk}
spec:
  selector: {matchLabels: {app: clerk}}
  template:
    metadata: {labels: {app: clerk}}
    spec:
      containers:
      - name: app
        command:
        - bash
        - -c
        - |
          while sleep 0.2; do
            exec 3<>"/dev/tcp/$STORE_SERVICE_HOST/$STORE_SERVICE_PORT" || continue
            echo hello >&3 && read -r -t 2 _ <&3
            exec 3>&-
          done
`
