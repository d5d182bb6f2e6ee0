package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
	"github.com/lateen-mesh/lateen/internal/source/dir"
)

// advicePatience is how long anything may take that should happen in a moment.
const advicePatience = 2 * time.Minute

// adviceMesh is a control plane of a directory, with simulated sidecars.
type adviceMesh struct {
	t         *testing.T
	ctx       context.Context
	directory string
	pipeline  *app.Pipeline
	// monitoring serves the pages without metrics of time, real all of them; xds is where sidecars
	// connect.
	monitoring, real, xds string
	fleet                 *sidecar.Fleet
	all                   []*sidecar.Sidecar
}

// startAdviceMesh serves a directory.
func startAdviceMesh(t *testing.T, directory string, settings map[string]string) *adviceMesh {
	t.Helper()
	c, err := config.FromEnv(func(name string) (string, bool) { v, ok := settings[name]; return v, ok })
	require.NoError(t, err)
	m := runAdviceMesh(t, app.Options{
		Source: dir.New(dir.Options{Path: directory, Logger: slog.New(slog.DiscardHandler)}), Config: c,
	})
	m.directory = directory
	return m
}

// runAdviceMesh runs a control plane, with no sidecar yet, until the test ends.
func runAdviceMesh(t *testing.T, o app.Options) *adviceMesh {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), advicePatience)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return l
	}
	o.XDS, o.Monitoring = listen(), listen()
	o.Mesh, o.Pods, o.Version, o.Log = model.DefaultMesh(), true, "test", slog.New(slog.DiscardHandler)
	m := &adviceMesh{t: t, ctx: ctx, real: o.Monitoring.Addr().String(), xds: o.XDS.Addr().String()}
	m.pipeline = app.New(o)
	m.monitoring = withoutTimes(t, m.real)
	done := make(chan error, 1)
	go func() { done <- m.pipeline.Run(ctx) }()
	var err error
	m.fleet, err = sidecar.New(sidecar.Options{Targets: []string{o.XDS.Addr().String()}, Loops: 1, Log: o.Log})
	require.NoError(t, err)
	t.Cleanup(func() {
		m.fleet.Close()
		cancel()
		require.NoError(t, <-done)
	})
	select {
	case <-m.pipeline.Opened():
	case <-ctx.Done():
		require.NoError(t, ctx.Err())
	}
	return m
}

// withoutTimes serves the pages of a control plane without the metrics that say how fast and how
// busy the machine is.
func withoutTimes(t *testing.T, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: address})
			r.Out.Header.Del("Accept-Encoding")
			r.Out.Header.Del("Accept") // text, not protobuf
		},
		ModifyResponse: func(r *http.Response) error {
			body, err := io.ReadAll(r.Body)
			_ = r.Body.Close()
			if err != nil || r.Request.URL.Path != "/metrics" {
				r.Body = io.NopCloser(bytes.NewReader(body))
				return err
			}
			var kept strings.Builder
			for line := range strings.Lines(string(body)) {
				if !strings.HasPrefix(line, "process_cpu_seconds_total") &&
					!strings.HasPrefix(line, "pilot_proxy_convergence_time") {
					kept.WriteString(line)
				}
			}
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(kept.String())), -1
			r.Header.Del("Content-Length")
			return nil
		},
	}}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done; http.DefaultClient.CloseIdleConnections() })
	return l.Addr().String()
}

// connect starts sidecars in a namespace.
func (m *adviceMesh) connect(namespace string, n int, router bool) {
	for i := range n {
		id := sidecar.Identity{
			Namespace: namespace, Pod: fmt.Sprintf("pod-%d", i), Router: router,
			Address: netip.AddrFrom4([4]byte{10, 9, byte(len(m.all)), byte(i)}),
			Labels:  map[string]string{"app": namespace},
		}
		m.all = append(m.all, m.fleet.Start(id, sidecar.Faults{}))
	}
}

// await waits until a condition holds and all sidecars have everything.
func (m *adviceMesh) await(what string, holds func() bool) {
	m.t.Helper()
	for {
		first := holds() // what the control plane has by now is at the sidecars once it is settled
		_ = m.pipeline.Settle(m.ctx)
		if m.fleet.Stats().Synced == len(m.all) && first && holds() {
			return
		}
		if err := m.ctx.Err(); err != nil {
			require.NoError(m.t, err, what)
		}
	}
}

func (m *adviceMesh) write(name, text string) {
	m.t.Helper()
	temporary := filepath.Join(m.t.TempDir(), name)
	require.NoError(m.t, os.WriteFile(temporary, []byte(text), 0o600))
	require.NoError(m.t, os.Rename(temporary, filepath.Join(m.directory, name)))
}

// clusters counts the clusters of all sidecars whose names contain a text.
func (m *adviceMesh) clusters(text string) (n int) {
	for _, s := range m.all {
		for name := range s.Resources(sidecar.Cluster) {
			if strings.Contains(name, text) {
				n++
			}
		}
	}
	return n
}

// advised runs the command, which finds something or does not.
func (m *adviceMesh) advised(args ...string) advise.Report {
	m.t.Helper()
	args = append([]string{"--monitoring-address", m.monitoring, "--since-start", "-o", "json"}, args...)
	text, err := output(m.t, nil, adviseCommand, args...)
	var code command.ExitCode
	if err != nil && !errors.As(err, &code) {
		require.NoError(m.t, err)
	}
	var report advise.Report
	require.NoError(m.t, json.Unmarshal([]byte(text), &report), text)
	want := command.ExitCode(0)
	if len(report.Findings) > 0 {
		want = exitAdvice
	}
	require.Equal(m.t, want, code, text)
	return report
}

func findingOf(t *testing.T, r advise.Report, rule string) advise.Finding {
	t.Helper()
	at := slices.IndexFunc(r.Findings, func(f advise.Finding) bool { return f.Rule == rule })
	require.GreaterOrEqual(t, at, 0, "%+v", r)
	return r.Findings[at]
}

func effectOf(t *testing.T, f advise.Finding, what string) advise.Effect {
	t.Helper()
	at := slices.IndexFunc(f.Effects, func(e advise.Effect) bool { return e.What == what })
	require.GreaterOrEqual(t, at, 0, "%+v", f)
	return f.Effects[at]
}

// adviceServices are the services of a namespace. The one with index 7 has a second port, if it is
// not 0.
func adviceServices(namespace string, n, port int) string {
	var text strings.Builder
	for i := range n {
		second := ""
		if i == 7 && port != 0 {
			second = fmt.Sprintf(", {name: http-2, port: %d}", port)
		}
		fmt.Fprintf(&text, "apiVersion: v1\nkind: Service\nmetadata: {name: svc-%d, namespace: %s}\n"+
			"spec: {selector: {app: %s}, ports: [{name: http, port: 80}%s]}\n---\n", i, namespace, namespace, second)
	}
	return text.String()
}

// advicePod is a Pod whose Envoy's admin port is at an address.
func advicePod(namespace, admin string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: admin\n  namespace: %s\n"+
		"  annotations: {lateen.io/outbound-address: %s, lateen.io/app-address: %s}\n"+
		"spec: {containers: [{name: app, image: app}]}\nstatus: {phase: Running, podIP: %s}\n",
		namespace, admin, admin, admin)
}

// serveClusters is an Envoy that has called hosts.
func serveClusters(t *testing.T, address string, hosts ...string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(envoyAdminPort)))
	require.NoError(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			for _, host := range hosts {
				_, _ = fmt.Fprintf(w, "outbound|80||%s::10.0.0.1:80::rq_total::5\n", host)
			}
			_, _ = fmt.Fprintln(w, "outbound|80||never.called.svc.cluster.local::10.0.0.1:80::rq_total::0")
		})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done; http.DefaultClient.CloseIdleConnections() })
}

// callingMesh has namespaces with services and two sidecars each. Each calls a service of its own
// and one of the next namespace.
func callingMesh(t *testing.T, namespaces, services int) *adviceMesh {
	t.Helper()
	directory := t.TempDir()
	for i := range namespaces {
		name, next := fmt.Sprintf("ns-%d", i), fmt.Sprintf("ns-%d", (i+1)%namespaces)
		admin := fmt.Sprintf("127.66.1.%d", i+1)
		text := adviceServices(name, services, 0) + advicePod(name, admin)
		require.NoError(t, os.WriteFile(filepath.Join(directory, name+".yaml"), []byte(text), 0o600))
		serveClusters(t, admin, "svc-0."+name+".svc.cluster.local", "svc-1."+next+".svc.cluster.local")
	}
	m := startAdviceMesh(t, directory, nil)
	for i := range namespaces {
		m.connect(fmt.Sprintf("ns-%d", i), 2, false)
	}
	m.await("all sidecars in sync", func() bool { return m.clusters("outbound|80||svc-0.") > 0 })
	return m
}

// pushed gives one service of each namespace another port, and returns how many sidecars get its
// new cluster, in the mean over the namespaces.
func (m *adviceMesh) pushed(namespaces, services, port int) float64 {
	for i := range namespaces {
		name := fmt.Sprintf("ns-%d", i)
		m.write(name+".yaml", adviceServices(name, services, port)+advicePod(name, fmt.Sprintf("127.66.1.%d", i+1)))
	}
	m.await("a new port", func() bool { return m.hasAll(port, namespaces) })
	return float64(m.clusters(fmt.Sprintf("outbound|%d||svc-7.", port))) / float64(namespaces)
}

// hasAll reports whether the control plane knows the port of each namespace.
func (m *adviceMesh) hasAll(port, namespaces int) bool {
	n := 0
	for svc := range m.pipeline.Snapshot().Services() {
		for _, p := range svc.Ports {
			if int(p.Port) == port {
				n++
			}
		}
	}
	return n == namespaces
}
