package loadtest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/airline"
	"github.com/lateen-mesh/lateen/internal/perf/lab"
)

// labFlags are the flags of lateen perf lab and app.
type labFlags struct {
	o                     lab.Options
	envoy, report, output string
	full                  bool
}

func newLab(out, progress *terminal.Writer) *cobra.Command {
	f := labFlags{}
	about := make([]string, 0, len(lab.Labs()))
	for _, l := range lab.Labs() {
		about = append(about, fmt.Sprintf("  %-14s %s", l.Name, l.About))
	}
	return f.complete(&cobra.Command{
		Use:   "lab NAME",
		Short: "Run a published test: its table, with Lateen's figures beside",
		Long: `Runs a test as a published document describes it, and prints the document's columns: Lateen's
figure, the published one beside it, their ratio, and both for each sidecar. Sizes are a share of the
published ones (--scale), so that a machine with two CPUs does it in a minute or two; --full takes the
published size. Each report says its scale and its machine. The labs:

` + strings.Join(about, "\n"),
		Example: `  lateen perf lab book
  lateen perf lab aks-churn --scale 0.2
  lateen perf lab bookinfo-20 --report results   # results/index.html, versions side by side`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := command.Arguments("NAME")(cmd, args); err != nil {
				return err
			}
			_, err := lab.Find(args[0])
			return err
		},
		ValidArgs: lab.Names(),
		RunE:      func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0], out, progress) },
	})
}

// complete adds the flags to a command.
func (f *labFlags) complete(cmd *cobra.Command) *cobra.Command {
	flags := cmd.Flags()
	flags.IntVar(&f.o.Clients, "clients", airline.PublishedClients, "app: how many clients send requests")
	flags.DurationVar(&f.o.Think, "think", airline.PublishedThink, "app: how long each client waits between two "+
		"requests")
	command.AtLeast(flags, "clients", &f.o.Clients, 1)
	command.AtLeast(flags, "think", &f.o.Think, 0)
	flags.Float64Var(&f.o.Scale, "scale", 0, "the size as a share of the published one, 1 at most (default: the "+
		"lab's own)")
	flags.BoolVar(&f.full, "full", false, "the published size (--scale 1); some labs take ten minutes")
	flags.Float64Var(&f.o.Pause, "pause", 1, "the pauses between changes as a share of the published ones, 0 to 1")
	flags.StringVar(&f.envoy, "envoy", "", "Envoy binary (default: $LATEEN_ENVOY, .tools/envoy here or beside the "+
		"binary, then PATH); labs that can do without one do")
	flags.StringVar(&f.report, "report", "", "write the result into this directory as JSON, and an HTML report of all "+
		"that is there")
	flags.StringVar(&f.o.Limits, "limits", lab.NoLimits, "bookinfo-20: the published limits of CPU for control "+
		"planes, which root may set; auto: where they can be set")
	command.OneOf(cmd, "limits", &f.o.Limits, lab.Limits()...)
	flags.BoolVar(&f.o.Real, "real", false, "bookinfo-20: all sidecars of the last table are Envoys")
	cmd.MarkFlagsMutuallyExclusive("full", "scale")
	_ = cmd.MarkFlagDirname("report")
	command.BindOutput(cmd, &f.output)
	for name, share := range map[string]*float64{"scale": &f.o.Scale, "pause": &f.o.Pause} {
		command.ValidateFlag(flags, name, func() error {
			if *share < 0 || *share > 1 || math.IsNaN(*share) {
				return errors.New("want 0 to 1")
			}
			return nil
		})
	}
	return cmd
}

func (f *labFlags) run(cmd *cobra.Command, name string, out, progress *terminal.Writer) (err error) {
	l, err := lab.Find(name)
	if err != nil {
		return err
	}
	if f.full {
		f.o.Scale = 1
	}
	if f.o.Envoy, err = command.FindEnvoy(f.envoy); err != nil && (l.NeedsEnvoy || f.envoy != "") {
		return err
	}
	if f.o.Tools, err = labTools(os.Getenv); err != nil {
		return err
	}
	lateen, err := command.FindBeside("lateen")
	if err != nil {
		return err
	}
	server, err := command.FindBeside("lateen-discovery")
	if err != nil {
		server = lateen // it serves too
	}
	if f.o.Self, err = os.Executable(); err != nil {
		return err
	}
	if f.o.StateDir, err = os.MkdirTemp("", "lateen-lab-"); err != nil {
		return err
	}
	f.o.Server = []string{lateen, "perf-control-plane", "--log-level", "warn"}
	f.o.Cluster.Serve = []string{server, "serve", "--log-level", "warn"}
	f.o.Version, f.o.Progress = build.Version, progress.Bar
	r, err := l.Run(cmd.Context(), f.o)
	progress.Progress("")
	if err != nil {
		return fmt.Errorf("lab %s: %w (logs of Envoys are in %s)", name, err, f.o.StateDir)
	}
	r.Command = command.Line(cmd)
	if cmd.Name() == "lab" {
		r.Command = strings.Replace(r.Command, " lab", " lab "+name, 1)
	}
	err = os.RemoveAll(f.o.StateDir)
	if f.report != "" {
		err = errors.Join(err, write(f.report, "lab-"+r.Lab, r.Start, r))
	}
	return errors.Join(err, printLab(cmd, out, f.output, r))
}

// labTools finds the programs that a lab may do without: what lacks one is left out, and the report
// says so. One that a variable names has to be there.
func labTools(getenv func(string) string) (t lab.Tools, err error) {
	for name, path := range map[string]*string{
		"kube": &t.Kube, "prometheus": &t.Prometheus, "promtool": &t.Promtool, "rsyslogd": &t.Rsyslogd,
	} {
		found, missing := command.FindProgram(name, "")
		if missing != nil && getenv("LATEEN_"+strings.ToUpper(name)) != "" {
			return t, missing
		}
		*path = found
	}
	return t, nil
}

func printLab(cmd *cobra.Command, out *terminal.Writer, format string, r lab.Report) error {
	if format != "table" {
		return command.PrintAs(cmd.OutOrStdout(), format, r)
	}
	l, err := lab.Find(r.Lab)
	if err != nil {
		return err
	}
	out.Paragraph("", terminal.Plain, l.Document+": "+l.Reproduces)
	out.Paragraph("", terminal.Plain, r.Where())
	for _, t := range r.Tables {
		out.Line("")
		out.Line("%s", cmp.Or(t.Title, l.About))
		out.Table(t.Terminal())
	}
	for _, n := range r.Notes {
		out.Paragraph("", terminal.Faint, n)
	}
	return nil
}
