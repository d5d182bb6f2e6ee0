package perf

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/results"
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
	// calls and ingress are requests a second, within the mesh and from outside.
	calls, ingress float64
}

func newPerfModel(out *terminal.Writer) *cobra.Command {
	var f modelFlags
	cmd := &cobra.Command{
		Use:   "model",
		Short: "What a mesh of some size would need: replicas, memory, CPU, network",
		Long: `Estimates what a mesh would need of Lateen, from what a sidecar, a service, a pod and
a change were measured to cost. Each replica takes as many sidecars as it can without passing one of
its limits; the table names the limit that decides the number of replicas. With --requests or --ingress it says what the
proxies take too.

The constants were measured on the machine that -o json names. lateen perf constants measures those
of another.`,
		Example: `  lateen perf model --services 3000 --pods 6000 --changes-per-second 5 --requests 20000
  lateen perf model --sidecars 100000 --services 5000 --changes-per-second 20
  lateen perf model --sidecars 100000,1000000 --services 10000 --seen 0.02
  lateen perf constants -o json > mine.json
  lateen perf model --sidecars 50000 --constants mine.json`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.read()
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("pods") && !cmd.Flags().Changed("sidecars") {
				f.sidecars = []int{f.mesh.Pods} // each has one
			}
			estimates, err := f.estimate(c)
			if err != nil {
				return err
			}
			d, err := sizing.StoredDataPlane()
			if err != nil {
				return err
			}
			proxies := f.proxies(d)
			report := map[string]any{
				"kind": "model", "lateen": build.Version, "constants": c, "limits": f.limits, "estimates": estimates,
				"proxies": proxies,
			}
			if err := results.Keep(cmd, report); err != nil {
				return err
			}
			if f.output != "table" {
				return command.PrintAs(cmd.OutOrStdout(), f.output, report)
			}
			printModel(out, c, estimates)
			printProxies(out, d, proxies)
			return nil
		},
	}
	f.bind(cmd)
	return cmd
}

func (f *modelFlags) bind(cmd *cobra.Command) {
	flags, limits := cmd.Flags(), sizing.DefaultLimits()
	flags.IntSliceVar(
		&f.sidecars, "sidecars", []int{100_000,
			1_000_000}, "how many sidecars there are; several numbers make several columns",
	)
	flags.IntVar(&f.mesh.Services, "services", 5000, "how many services there are")
	flags.IntVar(&f.mesh.Pods, "pods", 0,
		"how many pods there are (default: as many as sidecars; without --sidecars each has one)")
	flags.Float64Var(
		&f.mesh.Seen, "seen", 1, "share of the services that a sidecar sees, and of the sidecars that see a change",
	)
	flags.Float64Var(&f.mesh.Changes, "changes-per-second", 10, "how many changes there are each second")
	flags.StringVar(
		&f.mesh.Kind, "kind", string(perf.Endpoints), "of which kind they are: endpoints, routes or create-services",
	)
	flags.Float64Var(&f.limits.Cores, "cores", limits.Cores, "limit of a replica: CPUs")
	flags.IntVar(&f.memory, "memory-mib", int(limits.Memory)>>20, "limit of a replica: memory, in MiB")
	flags.Float64Var(
		&f.limits.Headroom,
		"headroom",
		limits.Headroom,
		"share of memory that is added for garbage (0.5: what GOGC=50 lets grow, which is the default)",
	)
	flags.Float64Var(&f.limits.Busy, "busy", limits.Busy, "limit of a replica: share of its CPUs that changes take")
	flags.DurationVar(
		&f.lastSidecar,
		"max-last-sidecar",
		time.Duration(limits.LastSidecar),
		"limit of a replica: CPU time of one change, divided by CPUs",
	)
	flags.DurationVar(
		&f.connect,
		"max-connect",
		time.Duration(limits.Connect),
		"limit of a replica: CPU time in which all its sidecars connect, divided by CPUs",
	)
	flags.IntVar(
		&f.limits.Sidecars, "max-sidecars", 0, "limit of a replica: sidecars, for its file descriptors (0: none)",
	)
	flags.IntVar(&f.limits.Spare, "spare", limits.Spare, "replicas that may be away while the others keep the limits")
	flags.Float64Var(&f.calls, "requests", 0, "requests a second within the mesh, each through two sidecars")
	flags.Float64Var(&f.ingress, "ingress", 0, "requests a second from outside, each through a gateway and a sidecar")
	command.AtLeast(flags, "requests", &f.calls, 0)
	command.AtLeast(flags, "ingress", &f.ingress, 0)
	flags.StringVar(
		&f.constants,
		"constants",
		"",
		"what one of each costs, as lateen perf constants -o json has measured it (default: what was measured of "+
			"this version)",
	)
	command.BindOutput(cmd, &f.output)
	results.Bind(cmd)
	_ = cmd.MarkFlagFilename("constants", "json", "yaml")
	command.OneOf(cmd, "kind", &f.mesh.Kind, string(perf.Endpoints), string(perf.Routes), string(perf.Services))
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

// proxies returns what the proxies of each estimate take; nothing without requests.
func (f *modelFlags) proxies(d sizing.DataPlane) (all []sizing.Need) {
	if f.calls+f.ingress == 0 {
		return nil
	}
	for _, n := range f.sidecars {
		all = append(all, d.Need(f.calls, f.ingress, n))
	}
	return all
}

// printProxies prints what proxies take for requests.
func printProxies(out *terminal.Writer, d sizing.DataPlane, all []sizing.Need) {
	if len(all) == 0 {
		return
	}
	cores, memory := []string{"all proxies: cores for the requests"}, []string{"  memory of all sidecars"}
	for _, need := range all {
		cores = append(cores, fmt.Sprintf("%.1f", need.Cores))
		memory = append(memory, fmt.Sprintf("%.1f GB", need.Bytes/1e9))
	}
	var t terminal.Table
	t.Row(cores...)
	t.Row(memory...)
	out.Table(t)
	c := d.Case(true, false)
	out.Paragraph("", terminal.Faint, fmt.Sprintf("from lateen %s on %d CPUs (%s): 1,000 requests a second take %.2f "+
		"cores of the caller's sidecar, %.2f of the server's, %.2f of a gateway", d.Version, d.Machine.Cores,
		d.Machine.CPU, c.Client.Cores, c.Server.Cores, c.Gateway.Cores))
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
	out.Paragraph("", terminal.Faint, fmt.Sprintf(
		"from lateen %s on %d CPUs (%s):", c.Version, c.Machine.Cores, c.Machine.CPU,
	))
	out.Paragraph("  ", terminal.Faint, fmt.Sprintf(
		"%.0f kB for a sidecar; a change takes %.0f µs of CPU for each sidecar",
		c.SidecarBytes/1e3, 1e6*c.Change[all[0].Mesh.Kind].CPUSeconds,
	))
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
		Args: command.Arguments(),
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
			c.Command, c.Version = command.Line(cmd), build.Version
			report := struct {
				Kind string `json:"kind"`
				sizing.Constants
			}{"constants", c}
			if err := results.Keep(cmd, report); err != nil {
				return err
			}
			if f.output != "table" {
				return command.PrintAs(cmd.OutOrStdout(), f.output, c)
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
