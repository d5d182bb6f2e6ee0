package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lateen-mesh/lateen/internal/local"
)

// headerTimeout and endTime are how long Prometheus may take to send a request, and to end.
const (
	headerTimeout = 5 * time.Second
	endTime       = 10 * time.Second
)

// Options are what Prometheus is started with.
type Options struct {
	Binary string
	Dir    string // of its configuration, data and log; it is made
	// Listen is where Prometheus serves, "127.0.0.1:9090".
	Listen string
	// ControlPlane is where the control plane serves metrics.
	ControlPlane string
	Rules        []byte                   // rules and alerts in YAML
	Pods         func() []local.PodStatus // of the mesh; called from several goroutines
	Log          *slog.Logger
}

// Run runs Prometheus until the context ends. It returns an error if Prometheus ends before.
func Run(ctx context.Context, o Options) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("metrics of proxies: %w", err)
	}
	server := &http.Server{Handler: newProxies(o.Pods, o.Log), ReadHeaderTimeout: headerTimeout}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("metrics of proxies: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	g.Go(func() error { return o.prometheus(ctx, l.Addr().String()) })
	return g.Wait()
}

// prometheus runs the process.
func (o Options) prometheus(ctx context.Context, proxies string) error {
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return fmt.Errorf("prometheus: %w", err)
	}
	config, rules := filepath.Join(o.Dir, "prometheus.yaml"), filepath.Join(o.Dir, rulesFile)
	for name, content := range map[string][]byte{config: []byte(o.config(proxies)), rules: o.Rules} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return fmt.Errorf("prometheus: %w", err)
		}
	}
	log, err := os.Create(filepath.Join(o.Dir, "prometheus.log"))
	if err != nil {
		return fmt.Errorf("prometheus: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.CommandContext(ctx, o.Binary, "--config.file", config, "--web.listen-address", o.Listen,
		"--storage.tsdb.path", filepath.Join(o.Dir, "data"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = local.Tied()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endTime
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("prometheus has ended: %w; %s says why", err, log.Name())
}

// rulesFile is where the rules are, from the directory of the configuration.
const rulesFile = "rules.yaml"

func (o Options) config(proxies string) string {
	return fmt.Sprintf(`global: {scrape_interval: 5s, evaluation_interval: 5s}
rule_files: [%q]
scrape_configs:
- job_name: control-plane
  static_configs: [{targets: [%q], labels: {app: istiod}}]
- job_name: proxies
  http_sd_configs: [{url: "http://%[3]s%[4]s", refresh_interval: 5s}]
- job_name: kubelet
  honor_labels: true
  metrics_path: %[5]s
  static_configs: [{targets: [%[3]q]}]
`, rulesFile, o.ControlPlane, proxies, targetsPath, containersPath)
}
