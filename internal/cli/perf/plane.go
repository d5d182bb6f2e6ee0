package perf

import (
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/perf/port"
)

// planeFlags select the control plane that is measured.
type planeFlags struct {
	inMemory           bool
	kubeconfig, target string
	monitoring         string
	pid                int
	run, restarted     string
	warmed, name       string
	besideLateen       bool
}

func (f *planeFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.bindCluster(flags)
	flags.StringVar(
		&f.target,
		"target",
		"",
		"with --kubeconfig: where the control plane serves xDS in plaintext, host:port (default: lateen serve is run)",
	)
	flags.StringVar(
		&f.monitoring, "monitoring", "", "with --target: where the control plane serves /metrics, host:port",
	)
	flags.StringVar(
		&f.run,
		"run",
		"",
		"with --target: the command that runs the control plane there; it is started when the mesh is written, "+
			"and ended",
	)
	flags.IntVar(
		&f.pid, "pid", 0, "with --target: the control plane's process, if it runs on this machine, without --run",
	)
	flags.StringVar(
		&f.restarted,
		"restart-command",
		"",
		"with --target: a shell command that restarts the control plane, without --run",
	)
	flags.StringVar(
		&f.warmed,
		"warm-command",
		"",
		"with --target: a shell command that lets the control plane send everything anew, before sidecars connect "+
			"again (lateen perf all)",
	)
	flags.StringVar(
		&f.name,
		"name",
		"",
		"with --target: what to call the control plane (default: the name of its program, or its address)",
	)
	flags.BoolVar(
		&f.besideLateen,
		"beside-lateen",
		false,
		"with --target: measure lateen serve after it, with the same mesh and the same changes, and put both side "+
			"by side",
	)
	_ = cmd.MarkFlagFilename("kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("in-memory", "kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("run", "pid")
	cmd.MarkFlagsMutuallyExclusive("run", "restart-command")
	// A restart changes the PID.
	cmd.MarkFlagsMutuallyExclusive("pid", "restart-command")
}

func (f *planeFlags) bindCluster(flags *pflag.FlagSet) {
	flags.BoolVar(
		&f.inMemory, "in-memory", false, "measure Lateen with a mesh in memory (default without --kubeconfig)",
	)
	flags.StringVar(
		&f.kubeconfig,
		"kubeconfig",
		"",
		"write the mesh to this cluster, for the control plane at --target; it is deleted at the end",
	)
}

func (f *planeFlags) check() error {
	switch {
	case f.target != "" && f.kubeconfig == "":
		return errors.New("--target is where a control plane serves that reads an API server: want --kubeconfig")
	case f.target == "" && (f.monitoring != "" || f.pid != 0 || f.restarted+f.run+f.warmed+f.name != "" ||
		f.besideLateen):
		return errors.New(
			"--run, --monitoring, --pid, --name, --restart-command, --warm-command and --beside-lateen are about " +
				"a control plane " +
				"that reads an API server: want --kubeconfig and --target",
		)
	}
	return nil
}

// lateenInMemory returns the default control plane: Lateen as a child process. It serves TLS if it
// is given what that needs.
func lateenInMemory(security *controlplane.Security) (func() controlplane.Plane, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	return func() controlplane.Plane {
		plane := controlplane.NewInMemory([]string{self, perfServer, "--log-level", "warn"}, log)
		if security != nil {
			plane.Environment = append(os.Environ(), controlplane.SecurityVariable+"="+security.Setting())
		}
		return plane
	}, nil
}

// planes returns the control planes that read the API server, to be measured in succession: one, or
// that one and Lateen.
func (f *planeFlags) planes() ([]func() controlplane.Plane, error) {
	server, err := serverProgram()
	if err != nil {
		return nil, err
	}
	cluster, err := controlplane.OpenCluster(f.kubeconfig)
	if err != nil {
		return nil, err
	}
	behind := controlplane.External{Cluster: cluster}
	var planes []func() controlplane.Plane
	if f.target != "" {
		planes = append(planes, func() controlplane.Plane { return f.external(behind) })
	}
	if f.target == "" || f.besideLateen {
		// The ports stay reserved until this process ends, because the planes run several times.
		xds, err := port.Reserve()
		if err != nil {
			return nil, err
		}
		monitoring, err := port.Reserve()
		if err != nil {
			return nil, err
		}
		planes = append(planes, func() controlplane.Plane {
			command := []string{
				server, "serve", "--kubeconfig", f.kubeconfig, "--xds-address", xds.Address,
				"--monitoring-address", monitoring.Address, "--log-level", "warn",
			}
			lateen := behind
			lateen.Name = "lateen"
			return lateen.Run(command, xds.Address, scrape(monitoring.Address))
		})
	}
	return planes, nil
}

// serverProgram returns the program that images run, or this one, which serves too, where that is
// not built.
func serverProgram() (string, error) {
	if server, err := command.FindBeside("lateen-discovery"); err == nil {
		return server, nil
	}
	return os.Executable()
}

// external returns the control plane at --target.
func (f *planeFlags) external(e controlplane.External) controlplane.Plane {
	e.Keep, e.Name, e.WarmCommand = f.besideLateen, f.name, f.warmed
	s := scrape(f.monitoring)
	if f.run != "" {
		return e.Run(controlplane.Shell(f.run), f.target, s)
	}
	e.Target, e.RestartCommand, e.Scrape = f.target, f.restarted, s
	switch {
	case f.pid != 0 && s != nil:
		e.Process = measure.PIDWithMetrics{PID: measure.PID(f.pid), Scrape: *s}
	case f.pid != 0:
		e.Process = measure.PID(f.pid)
	case s != nil:
		e.Process = s
	}
	return &e
}

// scrape returns the metrics served at an address, or nil if it is empty.
func scrape(address string) *measure.Scrape {
	if address == "" {
		return nil
	}
	return &measure.Scrape{URL: "http://" + address + "/metrics"}
}
