package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/airline"
	"github.com/lateen-mesh/lateen/internal/perf/dataplane"
	"github.com/lateen-mesh/lateen/internal/perf/jmeter"
	"github.com/lateen-mesh/lateen/internal/perf/lab"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// jmeterFlags are the flags of lateen perf jmeter.
type jmeterFlags struct {
	o                                       jmeter.Options
	target, results                         string
	jmeter, envoy, report, output, stateDir string
	merge                                   bool
}

func newJMeter(out, progress *terminal.Writer) *cobra.Command {
	f := jmeterFlags{}
	cmd := &cobra.Command{
		Use:   "jmeter [--merge FILE...]",
		Short: "Have Apache JMeter send the airline's transactions, or merge results of several",
		Long: `Runs Apache JMeter without its window, one process or several, with the plan of examples/airline: to
a running airline (--target), or to one with sidecars behind a gateway that is started for it. It prints
requests, failures and times, overall and by transaction, as JMeter has measured them.

With --merge no JMeter runs: the JTL files of JMeters that ran at the same time on several hosts become
one table. Run JMeter there with --results, or as 'jmeter -n -t airline.jmx -l FILE'.

A JMeter: 'make jmeter' puts 5.6.3 into .tools.`,
		Example: `  lateen perf jmeter
  lateen perf jmeter --target http://gateway.example.org --processes 2 --results host-1
  lateen perf jmeter --merge host-1/jmeter-1.jtl host-2/jmeter-1.jtl`,
		Args: func(cmd *cobra.Command, args []string) error { return f.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.merge {
				return f.finish(cmd, out, nil, args)
			}
			return f.run(cmd, out, progress)
		},
	}
	f.bind(cmd)
	return cmd
}

func (f *jmeterFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.merge, "merge", false, "merge these JTL files of JMeters that ran at the same time")
	flags.StringVar(&f.target, "target", "", "the gateway of a running airline, as http://host:port (default: the "+
		"airline is started, with sidecars)")
	flags.IntVar(&f.o.Processes, "processes", 1, "how many JMeters run at the same time")
	flags.IntVar(&f.o.Clients, "clients", airline.PublishedClients, "how many clients send requests, of all JMeters "+
		"together")
	flags.DurationVar(&f.o.Think, "think", airline.PublishedThink, "how long each client waits before a request, in "+
		"whole milliseconds")
	flags.DurationVar(&f.o.Duration, "duration", time.Minute, "how long requests are sent, in whole seconds; the "+
		"clients start over the first second")
	flags.StringVar(&f.results, "results", "", "keep the JTL file, the output and the log of each JMeter in this "+
		"directory")
	flags.StringVar(&f.jmeter, "jmeter", "", "JMeter's program (default: $LATEEN_JMETER, .tools/jmeter here or beside "+
		"the binary, then PATH)")
	flags.StringVar(&f.envoy, "envoy", "", "Envoy binary (default: $LATEEN_ENVOY, .tools/envoy here or beside the "+
		"binary, then PATH)")
	flags.StringVar(&f.report, "report", "", "write the result into this directory as JSON, and an HTML report of all "+
		"that is there")
	_ = cmd.MarkFlagDirname("results")
	_ = cmd.MarkFlagDirname("report")
	command.BindOutput(cmd, &f.output)
	f.restrict(flags)
	for _, other := range []string{
		"target", "processes", "clients", "think", "duration", "results", "jmeter", "envoy",
	} {
		cmd.MarkFlagsMutuallyExclusive("merge", other)
	}
	cmd.MarkFlagsMutuallyExclusive("target", "envoy")
}

// restrict makes flags reject invalid values.
func (f *jmeterFlags) restrict(flags *pflag.FlagSet) {
	command.AtLeast(flags, "processes", &f.o.Processes, 1)
	command.AtLeast(flags, "clients", &f.o.Clients, 1)
	command.ValidateFlag(flags, "think", whole(&f.o.Think, time.Millisecond, 0))
	command.ValidateFlag(flags, "duration", whole(&f.o.Duration, time.Second, 1))
	command.ValidateFlag(flags, "target", func() (err error) {
		f.o.Target, err = url.Parse(f.target)
		if err != nil || !slices.Contains([]string{"http", "https"}, f.o.Target.Scheme) ||
			f.o.Target.Hostname() == "" || f.o.Target.Path != "" && f.o.Target.Path != "/" {
			return errors.New("want http://HOST:PORT or https://HOST:PORT, without a path")
		}
		return nil
	})
}

// whole returns the check that a time is so many units at least, without a fraction.
func whole(d *time.Duration, unit time.Duration, least int64) func() error {
	return func() error {
		if *d%unit != 0 || *d < time.Duration(least)*unit {
			return fmt.Errorf("want a multiple of %v, %v or more", unit, time.Duration(least)*unit)
		}
		return nil
	}
}

func (f *jmeterFlags) validate(cmd *cobra.Command, args []string) error {
	switch {
	case f.merge && len(args) == 0:
		return errors.New("FILE is missing: want lateen perf jmeter --merge FILE..., with a JTL file of each JMeter")
	case len(args) > 0 && !f.merge:
		return fmt.Errorf("%q is one argument too many: want lateen perf jmeter --merge %[1]s to merge results",
			args[0])
	case f.o.Clients < f.o.Processes:
		return fmt.Errorf("--clients %d is below --processes %d: want a client for each JMeter, or more", f.o.Clients,
			f.o.Processes)
	}
	return nil
}

// run finds what is needed first, so that nothing is started without it.
func (f *jmeterFlags) run(cmd *cobra.Command, out, progress *terminal.Writer) (err error) {
	if err := f.find(cmd.Context()); err != nil {
		return err
	}
	if f.results != "" {
		if f.o.Dir, err = filepath.Abs(f.results); err != nil {
			return err
		}
		if err := os.MkdirAll(f.o.Dir, 0o755); err != nil {
			return err
		}
	}
	if f.stateDir, err = os.MkdirTemp("", "lateen-jmeter-"); err != nil {
		return err
	}
	f.o.Plan, f.o.Dir = airline.Plan(), cmp.Or(f.o.Dir, f.stateDir)
	files, load, err := f.measure(cmd.Context(), progress)
	progress.Progress("")
	if err != nil {
		return fmt.Errorf("%w (logs of JMeter are in %s, those of the airline in %s)", err, f.o.Dir, f.stateDir)
	}
	return errors.Join(f.finish(cmd, out, load, files), os.RemoveAll(f.stateDir))
}

// find returns what is missing.
func (f *jmeterFlags) find(ctx context.Context) (err error) {
	if f.o.Program, err = command.FindProgram("jmeter", f.jmeter); err != nil {
		return err
	}
	if f.o.Target != nil {
		return airline.Check(ctx, f.o.Target)
	}
	f.envoy, err = command.FindEnvoy(f.envoy)
	return err
}

// measure tries JMeter, starts the airline unless one is named, and runs the JMeters.
func (f *jmeterFlags) measure(
	ctx context.Context, progress *terminal.Writer,
) (files []string, load *jmeter.Load, err error) {
	progress.Bar("trying JMeter", 0, 0)
	version, err := f.o.Probe(ctx)
	if err != nil {
		return nil, nil, err
	}
	if f.o.Target == nil {
		mesh, startErr := f.startAirline(ctx, progress)
		if startErr != nil {
			return nil, nil, startErr
		}
		defer func() { err = errors.Join(err, mesh.Stop()) }()
		f.o.Target = &url.URL{Scheme: "http", Host: mesh.Gateway()}
	}
	progress.Bar(fmt.Sprintf("sending requests for %v", f.o.Duration), 0, 0)
	files, err = f.o.Run(ctx)
	return files, &jmeter.Load{
		JMeter: version, Target: f.o.Target.String(), Processes: f.o.Processes, Clients: f.o.Clients,
		Think: measure.Seconds(f.o.Think), Duration: measure.Seconds(f.o.Duration),
	}, err
}

// startAirline starts one with sidecars behind a gateway.
func (f *jmeterFlags) startAirline(
	ctx context.Context, progress *terminal.Writer,
) (mesh *dataplane.Application, err error) {
	o := lab.Options{Envoy: f.envoy, StateDir: f.stateDir, Version: build.Version, Progress: progress.Bar}
	if o.Self, err = os.Executable(); err != nil {
		return nil, err
	}
	return lab.StartAirline(ctx, o)
}

// finish merges the files, and keeps and prints the report.
func (f *jmeterFlags) finish(cmd *cobra.Command, out *terminal.Writer, load *jmeter.Load, files []string) error {
	r, err := jmeter.Merge(files...)
	if err != nil {
		return err
	}
	r.Lateen, r.Command, r.Load = build.Version, command.Line(cmd), load
	if f.merge {
		r.Command += " " + strings.Join(files, " ")
	}
	if f.report != "" {
		err = write(f.report, jmeter.Kind, r.Start, r)
	}
	if f.output != "table" {
		err = errors.Join(err, command.PrintAs(cmd.OutOrStdout(), f.output, r))
	} else {
		printJMeter(out, r)
	}
	if n := r.All.Failed; err == nil && n > 0 {
		return fmt.Errorf("%d of %d requests failed; the first: %s", n, r.All.Requests, r.Why)
	}
	return err
}

func printJMeter(out *terminal.Writer, r jmeter.Report) {
	out.Paragraph("", terminal.Plain, r.Title())
	out.Line("")
	out.Table(r.Table())
	if len(r.Results) > 1 {
		out.Line("")
		out.Table(r.ResultTable())
	}
	for _, n := range r.Notes {
		out.Paragraph("", terminal.Faint, n)
	}
}
