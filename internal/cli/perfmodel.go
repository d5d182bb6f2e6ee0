package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/perf/sizing"
)

// modelFlags are the flags of lateen perf model.
type modelFlags struct {
	sidecars             []int
	mesh                 sizing.Mesh
	limits               sizing.Limits
	memory               int
	lastSidecar, connect time.Duration
	constants, output    string
}

func newPerfModel(out *terminal.Writer) *cobra.Command {
	var f modelFlags
	cmd := &cobra.Command{
		Use:   "model",
		Short: "What a mesh of some size would need: replicas, memory, CPU, network",
		Long: `Estimates what a mesh would need of Lateen, from what a sidecar, a service, a pod and
a change were measured to cost. Each replica takes as many sidecars as it can without passing one of
its limits; which limit asks for so many replicas is told.

The constants were measured on the machine that -o json names. lateen perf constants measures those
of another.`,
		Example: `  lateen perf model --sidecars 100000 --services 5000 --changes-per-second 20
  lateen perf model --sidecars 100000,1000000 --services 10000 --seen 0.02
  lateen perf constants -o json > mine.json
  lateen perf model --sidecars 50000 --constants mine.json`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.read()
			if err != nil {
				return err
			}
			estimates, err := f.estimate(c)
			if err != nil {
				return err
			}
			if f.output != "table" {
				return printAs(cmd.OutOrStdout(), f.output, map[string]any{
					"constants": c, "limits": f.limits, "estimates": estimates,
				})
			}
			printModel(out, c, estimates)
			return nil
		},
	}
	f.bind(cmd)
	return cmd
}

func (f *modelFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntSliceVar(
		&f.sidecars, "sidecars", []int{100_000,
			1_000_000}, "how many sidecars there are; several numbers make several columns",
	)
	flags.IntVar(&f.mesh.Services, "services", 5000, "how many services there are")
	flags.IntVar(&f.mesh.Pods, "pods", 0, "how many pods there are (default: as many as sidecars)")
	flags.Float64Var(
		&f.mesh.Seen, "seen", 1, "share of the services that a sidecar sees, and of the sidecars that see a change",
	)
	flags.Float64Var(&f.mesh.Changes, "changes-per-second", 10, "how many changes there are each second")
	flags.StringVar(
		&f.mesh.Kind, "kind", string(perf.Endpoints), "of which kind they are: endpoints, routes or create-services",
	)
	flags.Float64Var(&f.limits.Cores, "cores", 4, "limit of a replica: CPUs")
	flags.IntVar(&f.memory, "memory-mib", 16384, "limit of a replica: memory, in MiB")
	flags.Float64Var(
		&f.limits.Headroom,
		"headroom",
		0.5,
		"share of memory that is added for garbage (0.5: what GOGC=50 lets grow, which is the default)",
	)
	flags.Float64Var(&f.limits.Busy, "busy", 0.5, "limit of a replica: share of its CPUs that changes take")
	flags.DurationVar(
		&f.lastSidecar,
		"max-last-sidecar",
		2*time.Second,
		"limit of a replica: CPU time of one change, divided by CPUs",
	)
	flags.DurationVar(
		&f.connect,
		"max-connect",
		5*time.Minute,
		"limit of a replica: CPU time in which all its sidecars connect, divided by CPUs",
	)
	flags.IntVar(
		&f.limits.Sidecars, "max-sidecars", 0, "limit of a replica: sidecars, for its file descriptors (0: none)",
	)
	flags.IntVar(&f.limits.Spare, "spare", 1, "replicas that may be away while the others keep the limits")
	flags.StringVar(
		&f.constants,
		"constants",
		"",
		"what one of each costs, as lateen perf constants -o json has measured it (default: what was measured of "+
			"this version)",
	)
	bindOutput(cmd, &f.output)
	_ = cmd.MarkFlagFilename("constants", "json", "yaml")
	oneOf(cmd, "kind", &f.mesh.Kind, string(perf.Endpoints), string(perf.Routes), string(perf.Services))
}

func (f *modelFlags) read() (sizing.Constants, error) {
	if f.constants == "" {
		return sizing.Stored()
	}
	encoded, err := os.ReadFile(f.constants)
	if err != nil {
		return sizing.Constants{}, fmt.Errorf("--constants %s: %w", f.constants, err)
	}
	c, err := sizing.Parse(encoded)
	if err != nil {
		return c, fmt.Errorf("--constants %s: %w", f.constants, err)
	}
	return c, nil
}

func (f *modelFlags) estimate(c sizing.Constants) (all []sizing.Estimate, err error) {
	f.limits.Memory = float64(f.memory) * (1 << 20)
	f.limits.LastSidecar, f.limits.Connect = measure.Seconds(f.lastSidecar), measure.Seconds(f.connect)
	for _, n := range f.sidecars {
		mesh := f.mesh
		mesh.Sidecars = n
		if mesh.Pods == 0 {
			mesh.Pods = n
		}
		e, err := c.Estimate(mesh, f.limits)
		if err != nil {
			return nil, fmt.Errorf("%d sidecars: %w", n, err)
		}
		all = append(all, e)
	}
	return all, nil
}

func printModel(out *terminal.Writer, c sizing.Constants, all []sizing.Estimate) {
	var t terminal.Table
	for i, row := range sizing.Rows(all) {
		if i == 0 {
			t.Header = append([]string{row.Name}, row.Values...)
			continue
		}
		t.Row(append([]string{row.Name}, row.Values...)...)
	}
	out.Table(t)
	out.Paragraph(
		"",
		terminal.Faint,
		fmt.Sprintf(
			"from lateen %s on %d CPUs (%s): %.0f kB for a sidecar; a change takes %.0f µs of CPU for each sidecar",
			c.Version,
			c.Machine.Cores,
			c.Machine.CPU,
			c.SidecarBytes/1e3,
			1e6*c.Change[all[0].Mesh.Kind].CPUSeconds,
		),
	)
}

// newPerfConstants makes the command that measures the constants of lateen perf model.
func newPerfConstants(out, progress *terminal.Writer) *cobra.Command {
	var f perfFlags
	cmd := &cobra.Command{
		Use:   "constants",
		Short: "Measure what lateen perf model reckons with: the cost of one of each",
		Long: `Starts Lateen five times, with a mesh in memory: three times without sidecars, for the
memory of services and pods, and twice with, for what it takes to connect them and to tell them of
changes. Do it on a machine that has nothing else to do.`,
		Example: `  lateen perf constants
  lateen perf constants --services 1000 --sidecars 2000 -o json > mine.json
  lateen perf model --sidecars 100000 --constants mine.json`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.options(cmd, progress)
			if err != nil {
				return err
			}
			c, err := perf.MeasureConstants(cmd.Context(), o)
			progress.Progress("")
			if err != nil {
				return err
			}
			c.Command, c.Version = command.Line(cmd), version
			if f.output != "table" {
				return printAs(cmd.OutOrStdout(), f.output, c)
			}
			printConstants(out, c)
			return nil
		},
	}
	f.mesh = load.Shape{Namespaces: 50, Services: 1000, VirtualServices: 1}
	f.bindMeasuring(cmd, perfDefaults{mesh: f.mesh, sidecars: 1000, changes: 20, rate: 2})
	return cmd
}

func printConstants(out *terminal.Writer, c sizing.Constants) {
	t := terminal.Table{Header: []string{"", "MEMORY", "CPU", "TO SIDECAR", "FROM SIDECAR"}}
	bytes := func(n float64) string { return fmt.Sprintf("%.0f B", n) }
	for _, m := range []struct {
		name  string
		bytes float64
	}{{"the process", c.BaseBytes}, {"a service", c.ServiceBytes}, {
		"  as proxies get it", c.TranslatedBytes,
	}, {"a pod", c.PodBytes}, {"a sidecar", c.SidecarBytes}} {
		t.Row(m.name, bytes(m.bytes), "", "", "")
	}
	cost := func(name string, of sizing.Cost) {
		t.Row(name, "", fmt.Sprintf("%.1f µs", 1e6*of.CPUSeconds), bytes(of.Sent), bytes(of.Received))
	}
	cost("a sidecar connects", c.Connect)
	cost("  for each service", c.ConnectService)
	for _, kind := range c.Kinds() {
		cost("a sidecar and change: "+kind, c.Change[kind])
	}
	out.Table(t)
}
