package up

import (
	"fmt"
	"net"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/charts"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/local/observe"
)

func (o *upOptions) bindObserve(cmd *cobra.Command) {
	cmd.Flags().BoolVar(
		&o.observe, "observe", false, "run Prometheus beside the mesh, which scrapes the control plane and all proxies",
	)
	cmd.Flags().StringVar(
		&o.prometheus, "prometheus", "", "with --observe: Prometheus (default: $LATEEN_PROMETHEUS, .tools/prometheus "+
			"here or beside the binary, then PATH)",
	)
	cmd.Flags().StringVar(
		&o.prometheusAddress, "prometheus-address", "127.0.0.1:9090", "with --observe: where Prometheus serves",
	)
	command.HostPort(cmd.Flags(), "prometheus-address", &o.prometheusAddress)
	cmd.MarkFlagsMutuallyExclusive("check", "observe")
}

// newObserver returns what Prometheus is started with. It takes a free port now if none is named,
// because Prometheus does not say which one it took.
func (m *mesh) newObserver() (*observe.Options, error) {
	binary, err := command.FindProgram("prometheus", m.o.prometheus)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", m.o.prometheusAddress)
	if err != nil {
		return nil, fmt.Errorf("--prometheus-address: %w; want a free port of this machine, or --free-ports", err)
	}
	defer func() { _ = l.Close() }()
	return &observe.Options{
		Binary:       binary,
		Dir:          filepath.Join(m.o.stateDir, "prometheus"),
		Listen:       l.Addr().String(),
		ControlPlane: m.monitoring.Addr().String(),
		Rules:        charts.Rules,
		Pods:         func() []local.PodStatus { return m.runtime.Snapshot().Pods },
		Log:          m.log,
	}, nil
}
