package perf

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/load"
)

// Command returns the command perf, with those below it.
func Command(out, progress *terminal.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "perf",
		Short: "Measure a control plane, Lateen or another, with simulated sidecars",
		Long: `Connects simulated sidecars to a control plane, changes the mesh, and tells how long
each change took to each sidecar, and what the control plane used for it. Sidecars are lean xDS
clients: they ask as Envoy does, and carry no traffic.

Without further flags Lateen itself is measured, as a process of its own, with a mesh that exists in
memory alone. With --kubeconfig the mesh is written to an API server, and what is measured is the
control plane at --target that reads it: istiod, or another that speaks xDS. With --beside-lateen
Lateen is measured after it, and both are put side by side.`,
		Example: `  lateen perf create-services --services 1000 --sidecars 500
  lateen perf churn --sidecars 1000 --churn 25
  lateen perf routes --kubeconfig k.yaml --target 127.0.0.1:15010 --monitoring 127.0.0.1:15014
  lateen perf all --kubeconfig k.yaml --target 127.0.0.1:15010 --beside-lateen \
    --run 'pilot-discovery discovery --kubeconfig k.yaml'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, c := range perfCommands() {
		cmd.AddCommand(c.command(out, progress))
	}
	cmd.AddCommand(
		newPerfDebounce(out, progress), newPerfPressure(out, progress), newPerfConstants(out,
			progress), newPerfModel(out), newPerfCompare(out), newPerfBook(out, progress),
	)
	cmd.AddCommand(loadTestCommands()...)
	return cmd
}

// perfCommand is one scenario as a command.
type perfCommand struct {
	use, short, long, example string
	defaults                  perfDefaults
	// flags adds the flags of this scenario. It may be nil.
	flags    func(cmd *cobra.Command, f *perfFlags)
	scenario func(f *perfFlags) perf.Scenario
	// hasCapacitySearch is set if the scenario has --find-capacity.
	hasCapacitySearch bool
}

// perfDefaults are the default values of flags that differ between scenarios.
type perfDefaults struct {
	mesh              load.Shape
	sidecars, changes int
	rate              float64
}

func perfCommands() []perfCommand {
	return slices.Concat(perfCapacityCommands(), perfChangeCommands())
}

func perfCapacityCommands() []perfCommand {
	return []perfCommand{{
		use:   "churn",
		short: "Capacity under pod churn: how many sidecars of one service can be served",
		long: `A share of the sidecars goes with its pods and comes back under other addresses, so
many each second (--rate counts both). With --churn 0 nothing goes, and endpoints are changed
(--changes). This is the pod churn test of Azure's Istio add-on.`,
		example: `  lateen perf churn --sidecars 1000 --churn 25
  lateen perf churn --churn 50 --find-capacity --max-p99 1s`,
		defaults: perfDefaults{mesh: load.Shape{Namespaces: 1, Services: 1}, sidecars: 500, changes: 10, rate: 40},
		flags: func(cmd *cobra.Command, f *perfFlags) {
			cmd.Flags().IntVar(&f.churn, "churn", 25, "how many of a hundred sidecars go and come")
			command.ValidateFlag(cmd.Flags(), "churn", func() error {
				if f.churn < 0 || f.churn > 100 {
					return errors.New("want 0 to 100")
				}
				return nil
			})
		},
		scenario:          func(f *perfFlags) perf.Scenario { return perf.Churn(f.churn) },
		hasCapacitySearch: true,
	}, {
		use:   "services",
		short: "Capacity: how many sidecars of many services can be served",
		long: `All sidecars connect, and a route is changed some times. This is the test with 1,000
services of Azure's Istio add-on; its CPU is that of the time in which sidecars connect.`,
		example: `  lateen perf services --services 1000 --sidecars 2000
  lateen perf services --find-capacity --max-memory-mib 1536`,
		defaults: perfDefaults{
			mesh: load.Shape{Namespaces: 50, Services: 1000, VirtualServices: 1}, sidecars: 1000, changes: 5, rate: 1,
		},
		scenario:          func(*perfFlags) perf.Scenario { return perf.ManyServices() },
		hasCapacitySearch: true,
	}, {
		use:   "namespaces",
		short: "A mesh of many namespaces, with and without isolation of namespaces",
		long: `All sidecars connect, then endpoints and routes change and services are created. With
--isolated a Sidecar for the whole mesh lets proxies see their own namespace alone. This is the test
that was shown at KubeCon China 2019; the last example has its numbers: besides the mesh a third as
many services without sidecars, and a gateway in each namespace of the isolated one.`,
		example: `  lateen perf namespaces --sidecars 600
  lateen perf namespaces --sidecars 6000 --isolated
  lateen perf namespaces --sidecars 6000 --isolated --gateways \
    --unmanaged-namespaces 100 --unmanaged-services 1000 --unmanaged-pods 4000`,
		defaults: perfDefaults{mesh: load.Shape{
			Namespaces: 100, Services: 3000, Pods: 6000, VirtualServices: 100,
		}, sidecars: 600, changes: 5, rate: 1},
		flags: func(cmd *cobra.Command, f *perfFlags) {
			cmd.Flags().BoolVar(&f.mesh.Isolated, "isolated", false, "let proxies see their own namespace alone")
			cmd.Flags().BoolVar(
				&f.mesh.Gateways, "gateways", false, "have a gateway in each namespace, whose proxy connects too",
			)
			cmd.Flags().IntVar(
				&f.mesh.UnmanagedNamespaces, "unmanaged-namespaces", 0, "how many namespaces there are besides, "+
					"of which no pod has a sidecar",
			)
			cmd.Flags().IntVar(
				&f.mesh.UnmanagedServices, "unmanaged-services", 0, "how many services they have together",
			)
			cmd.Flags().IntVar(&f.mesh.UnmanagedPods, "unmanaged-pods", 0, "how many pods these services have together")
		},
		scenario: func(*perfFlags) perf.Scenario { return perf.Namespaces() },
	}}
}

func perfChangeCommands() []perfCommand {
	defaults := perfDefaults{
		mesh: load.Shape{Namespaces: 50, Services: 1000, VirtualServices: 1}, sidecars: 500, changes: 10, rate: 1,
	}
	changing := func(k perf.Kind, short, long string) perfCommand {
		return perfCommand{
			use: string(k), short: short, long: long, defaults: defaults,
			example: fmt.Sprintf(
				"  lateen perf %s --sidecars 2000 --changes 20 --rate 0.5\n  lateen perf %s -o json | jq .phases", k, k,
			),
			scenario: func(*perfFlags) perf.Scenario { return perf.Steady(k) },
		}
	}
	return []perfCommand{
		changing(perf.Endpoints, "Change the endpoints of one service at a steady rate",
			"Each change replaces one endpoint of one service. A sidecar has it when it has the endpoint."),
		changing(perf.Routes, "Edit one VirtualService at a steady rate",
			"A sidecar has a change when it has the route, or a later one."),
		changing(
			perf.Services,
			"Create services at a steady rate",
			"Each change is a Service and an EndpointSlice. A sidecar has it when it has the cluster, its "+
				"endpoint and the virtual host.",
		),
		{
			use:   "restart",
			short: "End the control plane under its sidecars and start it again",
			long: `All sidecars connect; the control plane ends and is started again; they come back
and say what they have. Reports the time until all are in sync, and the bytes sent.`,
			example: `  lateen perf restart --services 1000 --sidecars 2000
  lateen perf restart --kubeconfig k.yaml --target istiod:15010 \
    --restart-command 'kubectl -n istio-system rollout restart deploy/istiod'`,
			defaults: defaults,
			scenario: func(*perfFlags) perf.Scenario { return perf.Restart() },
		},
		{
			use:   "all",
			short: "All of these with one mesh, for a comparison of control planes",
			long: `All sidecars connect; an endpoint changes, a route, and a service is created; all
sidecars connect again as new ones, which a control plane may serve from what it has kept; it is
restarted.`,
			example: `  lateen perf all --services 1000 --sidecars 2000 --singly
  lateen perf all --kubeconfig k.yaml --target 127.0.0.1:15010 --beside-lateen -o json \
    --run 'pilot-discovery discovery --kubeconfig k.yaml'`,
			defaults: defaults,
			scenario: func(*perfFlags) perf.Scenario { return perf.All() },
		},
	}
}

func (c perfCommand) command(out, progress *terminal.Writer) *cobra.Command {
	f := perfFlags{mesh: c.defaults.mesh}
	cmd := &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long, Example: c.example, Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			reports, err := f.measure(cmd, progress, c.scenario(&f))
			if len(reports) == 2 && err == nil {
				return printBeside(cmd, out, f.output, reports[0], reports[1])
			}
			for _, r := range reports {
				err = errors.Join(err, printPerf(cmd, out, f.output, r))
			}
			return err
		},
	}
	f.bind(cmd, c.defaults)
	if c.flags != nil {
		c.flags(cmd, &f)
	}
	if c.hasCapacitySearch {
		f.search.bind(cmd)
	}
	return cmd
}

// measure runs a scenario with one control plane after the other. On error the last report is
// partial.
func (f *perfFlags) measure(
	cmd *cobra.Command, progress *terminal.Writer, s perf.Scenario,
) (reports []perf.Report, err error) {
	defer progress.Progress("")
	options, err := f.options(cmd, progress)
	if err != nil {
		return nil, err
	}
	planes := []func() controlplane.Plane{options.Plane}
	if f.plane.kubeconfig != "" {
		if planes, err = f.plane.planes(); err != nil {
			return nil, err
		}
	}
	for _, options.Plane = range planes {
		var r perf.Report
		if f.search.find {
			r, err = perf.FindCapacity(cmd.Context(), options, s, f.search.limits(options.Sidecars))
		} else {
			r, err = perf.Run(cmd.Context(), options, s)
		}
		r.Command, r.Lateen = command.Line(cmd), build.Version
		if reports = append(reports, r); err != nil {
			return reports, err
		}
	}
	return reports, nil
}

// searchFlags are the flags of --find-capacity.
type searchFlags struct {
	find         bool
	p99          time.Duration
	memory, most int
}

func (s *searchFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(
		&s.find,
		"find-capacity",
		false,
		"search the largest number of sidecars, from --sidecars on, that keeps these limits:",
	)
	flags.DurationVar(
		&s.p99, "max-p99", time.Second, "with --find-capacity: p99 of the time from a change to a sidecar",
	)
	flags.IntVar(
		&s.memory, "max-memory-mib", 1536, "with --find-capacity: the control plane's memory at its peak, in MiB",
	)
	flags.IntVar(
		&s.most,
		"max-sidecars",
		19000,
		"with --find-capacity: try no more (each takes a file descriptor of both processes)",
	)
	command.AtLeast(flags, "max-p99", &s.p99, time.Millisecond)
	command.AtLeast(flags, "max-memory-mib", &s.memory, 1)
	command.AtLeast(flags, "max-sidecars", &s.most, 1)
}

func (s *searchFlags) limits(from int) perf.Limits {
	return perf.Limits{P99: s.p99, Memory: int64(s.memory) << 20, From: from, Most: s.most}
}
