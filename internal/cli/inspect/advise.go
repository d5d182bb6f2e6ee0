package inspect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/results"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/observe/advise"
)

// exitAdvice is the exit code of lateen advise if there is something to advise.
const exitAdvice = 3

// adviseFlags say what is looked at, for how long, and what is done about it.
type adviseFlags struct {
	remote     *remote.Remote
	objects    string // a directory, wholeCluster, or nothing
	prometheus string
	window     time.Duration
	sinceStart bool
	asked      int // proxies
	output     string
	metrics    string // a file
	apply, yes bool
}

// Advise returns the command advise.
func Advise(out *terminal.Writer) *cobra.Command { return adviseCommand(out, &remote.Remote{}) }

func adviseCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	f := adviseFlags{remote: r}
	cmd := &cobra.Command{
		Use:   "advise [DIR|cluster]",
		Short: "What to tune: which signal is off, the bottleneck, and which lever helps",
		Long: `Looks at a control plane for a while and walks a guide: which of the four golden signals is off,
what the bottleneck is (rate of changes, CPU, number of proxies, size of configuration), and which lever
helps. Each advice has the numbers that it is based on, the effect that the model of lateen perf model
expects, and the exact thing to apply.

The control plane is asked as by lateen status. With --prometheus the metrics of a window are asked of
Prometheus, and who calls whom; without, proxies are asked whom they have called. DIR is the directory of
manifests of lateen up: there --apply writes. If no control plane answers, the manifests alone are read. With
cluster the objects of a cluster are read without asking its control plane, which may be an istiod.

The exit code is 0 if there is nothing to advise, 3 if there is, and 1 if nothing could be read.`,
		Example: `  lateen advise
  lateen advise --prometheus http://127.0.0.1:9090 --window 1h
  lateen advise manifests --apply
  lateen advise cluster --prometheus http://127.0.0.1:9090
  lateen advise --metrics /var/lib/node_exporter/lateen.prom
  lateen advise -o json | jq '.findings[].rule'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return command.Arguments("DIR|cluster")(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{wholeCluster}, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				f.objects = args[0]
			}
			return f.run(cmd, out)
		},
	}
	r.Bind(cmd)
	command.BindOutput(cmd, &f.output)
	f.bind(cmd)
	return cmd
}

func (f *adviseFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.prometheus, "prometheus", "",
		"the URL of a Prometheus that scrapes the control plane and proxies")
	flags.DurationVar(&f.window, "window", 0,
		"how long to look (default 30s; with --prometheus the last 10m)")
	flags.BoolVar(&f.sinceStart, "since-start", false,
		"judge everything since the control plane has started, and do not wait")
	flags.IntVar(&f.asked, "proxies", 100, "how many proxies to ask whom they have called, without --prometheus")
	results.Bind(cmd)
	flags.StringVar(&f.metrics, "metrics", "",
		"also write signals, advice and effects into this file as metrics, for node_exporter's textfile collector")
	_ = cmd.MarkFlagFilename("metrics", "prom")
	flags.BoolVar(&f.apply, "apply", false, "apply what can be applied, after a question for each")
	flags.BoolVar(&f.yes, "yes", false, "with --apply: do not ask")
	command.AtLeast(flags, "window", &f.window, time.Second)
	command.AtLeast(flags, "proxies", &f.asked, 0)
	cmd.MarkFlagsMutuallyExclusive("since-start", "window")
	cmd.MarkFlagsMutuallyExclusive("since-start", "prometheus")
}

func (f *adviseFlags) run(cmd *cobra.Command, out *terminal.Writer) error {
	if f.yes && !f.apply {
		return errors.New("--yes answers the questions of --apply; want --apply too")
	}
	report, err := f.advise(cmd.Context(), out)
	if err != nil {
		return err
	}
	if err := errors.Join(results.Keep(cmd, report), f.writeMetrics(report)); err != nil {
		return err
	}
	if f.output == "table" {
		printAdvice(out, report)
	} else if err := command.PrintAs(cmd.OutOrStdout(), f.output, report); err != nil {
		return err
	}
	if len(report.Findings) == 0 {
		return nil
	}
	if f.apply {
		if f.output != "table" {
			out = terminal.New(cmd.ErrOrStderr(), os.Getenv) // the output is for programs
		}
		if err := f.applyAll(cmd, out, report.Findings); err != nil {
			return err
		}
	}
	return command.ExitCode(exitAdvice)
}

// writeMetrics replaces the file of metrics in one step, so that nobody reads half of it.
func (f *adviseFlags) writeMetrics(r advise.Report) error {
	if f.metrics == "" {
		return nil
	}
	unfinished := f.metrics + ".tmp" // which a textfile collector does not read
	if err := os.WriteFile(unfinished, []byte(r.Metrics()), 0o644); err != nil {
		return err
	}
	return os.Rename(unfinished, f.metrics)
}

// advise gathers the facts and judges them.
func (f *adviseFlags) advise(ctx context.Context, out *terminal.Writer) (advise.Report, error) {
	model, err := advise.StoredModel()
	if err != nil {
		return advise.Report{}, err
	}
	facts, notes, err := f.gather(ctx, out)
	if err != nil {
		return advise.Report{}, err
	}
	report := advise.Advise(facts, model)
	report.Notes = append(notes, report.Notes...)
	return report, nil
}

// printAdvice prints a report as text.
func printAdvice(out *terminal.Writer, r advise.Report) {
	t := terminal.Table{Header: []string{"SIGNAL", "STATE", "METRIC", "VALUE", "THRESHOLD"}}
	for _, s := range r.Signals {
		style := map[advise.State]terminal.Style{
			advise.OK: terminal.Good, advise.Off: terminal.Bad, advise.Unknown: terminal.Faint,
		}[s.State]
		first := []terminal.Cell{{Text: string(s.Signal)}, {Text: string(s.State), Style: style}}
		for _, e := range s.Evidence {
			t.Rows = append(t.Rows, append(first, evidenceCells(e)...))
			first = []terminal.Cell{{}, {}}
		}
		if len(s.Evidence) == 0 {
			t.Rows = append(t.Rows, append(first, terminal.Cell{}, terminal.Cell{}, terminal.Cell{}))
		}
	}
	out.Table(t)
	out.Paragraph("bottleneck: ", terminal.Plain, fmt.Sprintf("%s (%s)", r.Bottleneck.Factor, r.Bottleneck.Why))
	for _, note := range r.Notes {
		out.Paragraph("note: ", terminal.Faint, note)
	}
	if len(r.Findings) == 0 {
		out.Line("%s", out.Paint(terminal.Good, "nothing to advise"))
	}
	for i, found := range r.Findings {
		out.Line("")
		out.Paragraph(fmt.Sprintf("%d. %s: ", i+1, found.Rule), terminal.Warn, found.Summary)
		printFinding(out, found)
	}
}

func evidenceCells(e advise.Evidence) []terminal.Cell {
	style, threshold := terminal.Plain, ""
	if e.Off {
		style = terminal.Bad
	}
	if e.Threshold != 0 || e.Off {
		threshold = formatNumber(e.Threshold, e.Unit)
	}
	return []terminal.Cell{{Text: e.Metric}, {Text: formatNumber(e.Value, e.Unit), Style: style}, {Text: threshold}}
}
