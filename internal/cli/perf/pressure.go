package perf

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/results"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/load"
)

// newPerfPressure makes the command that measures sidecars beside misbehaving ones.
func newPerfPressure(out, progress *terminal.Writer) *cobra.Command {
	var f perfFlags
	var o perf.PressureOptions
	var beside []string
	cmd := &cobra.Command{
		Use:   "pressure",
		Short: "How soon changes arrive while other sidecars misbehave, or all is changed",
		Long: `Endpoints change at a steady rate, and it is measured when they arrive at sidecars
that are well: in turn alone, and beside

  others that do not read; that acknowledge late; that flood with requests
  (--misbehaving of them);
  others that connect all in the same second (--mass-connect of them, in a namespace of their
  own, which sees none of the changes);
  an overload of changes to other services (--change-rate a second), in one namespace and in all
  of them.

Reports the times with and without, what waits for clients in the control plane and in the kernel,
memory and CPU.`,
		Example: `  lateen perf pressure --sidecars 500 --runs 5
  lateen perf pressure --beside overload --changes 600 --rate 10 --runs 1  # a minute`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.mesh.Pods == 0 {
				f.mesh.Pods = max(f.sidecars+o.NumMisbehaving, f.mesh.Services)
			}
			var err error
			for _, name := range beside {
				o.Only = append(o.Only, perf.DisturbancesByFlag()[name])
			}
			if o.Options, err = f.options(cmd, progress); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			report, err := perf.Pressure(cmd.Context(), o)
			progress.Progress("")
			report.Command, report.Lateen = command.Line(cmd), build.Version
			if len(report.Rows) > 0 {
				err = errors.Join(err, results.Keep(cmd, report))
			}
			return errors.Join(err, printPressure(cmd, out, f.output, report))
		},
	}
	f.mesh = load.Shape{Namespaces: 10, Services: 100}
	f.bindMeasuring(cmd, perfDefaults{mesh: f.mesh, sidecars: 200, changes: 50, rate: 10})
	flags := cmd.Flags()
	flags.IntVar(&o.NumMisbehaving, "misbehaving", 1, "how many sidecars do not read, acknowledge late, or flood")
	flags.IntVar(
		&o.NumMassConnect,
		"mass-connect",
		5000,
		"how many sidecars connect at once (each takes a file descriptor of both processes)",
	)
	flags.Float64Var(&o.OverloadRate, "change-rate", 10_000, "how many changes a second the overload has")
	flags.StringSliceVar(&beside, "beside", nil,
		"what to measure, in this order, all if nothing is said: "+strings.Join(
			disturbanceNames(), ", ",
		))
	command.ValidateFlag(flags, "beside", func() error {
		for _, name := range beside {
			if _, known := perf.DisturbancesByFlag()[name]; !known {
				return errors.New("want " + command.Alternatives(disturbanceNames()))
			}
		}
		return nil
	})
	flags.IntVar(&o.Runs, "runs", 5, "how many pairs of runs there are of each")
	for name, number := range map[string]*int{
		"misbehaving": &o.NumMisbehaving, "mass-connect": &o.NumMassConnect, "runs": &o.Runs,
	} {
		command.AtLeast(flags, name, number, 1)
	}
	command.AtLeast(flags, "change-rate", &o.OverloadRate, 1)
	return cmd
}

func disturbanceNames() []string { return slices.Sorted(maps.Keys(perf.DisturbancesByFlag())) }

func printPressure(cmd *cobra.Command, out *terminal.Writer, format string, r perf.PressureReport) error {
	if format != "table" {
		return command.PrintAs(cmd.OutOrStdout(), format, r)
	}
	if len(r.Rows) == 0 {
		return nil
	}
	out.Line("%s", r.Title())
	out.Line("")
	out.Table(r.Table())
	for _, n := range r.Notes() {
		out.Paragraph("", terminal.Faint, n)
	}
	return nil
}
