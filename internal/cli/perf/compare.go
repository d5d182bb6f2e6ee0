package perf

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/results"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf"
)

// newPerfCompare makes the command that compares two reports.
func newPerfCompare(out *terminal.Writer) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "compare A.json B.json | BOTH.json",
		Short: "Two reports side by side: how many times less or more",
		Long: `Compares two reports of lateen perf phase by phase: of two control planes, or of one
before and after a change. What belongs to changes is told for one change, so that a run may have
made more of them; the rest of the mesh should be the same, and it is told if it is not. A ratio of
10 means that A takes ten times what B takes. One file is what a run with --beside-lateen has found.
Two reports of one lab (lateen perf lab NAME -o json) are compared figure by figure.`,
		Example: `  lateen perf namespaces --sidecars 1000 --kubeconfig k.yaml \
    --target 127.0.0.1:15010 --monitoring 127.0.0.1:15014 -o json > istiod.json
  lateen perf namespaces --sidecars 1000 -o json > lateen.json
  lateen perf compare istiod.json lateen.json`,
		Args: oneOrTwoReports,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"json", "yaml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if areOfLabs(args) {
				if cmd.Flags().Changed(results.Flag) {
					return errors.New("--report keeps no comparison of two labs: want -o json > FILE")
				}
				return results.LoadTest.Run(cmd, append(args, "--output", output))
			}
			a, b, err := readReports(args)
			if err != nil {
				return err
			}
			c, err := perf.Compare(a, b)
			if err != nil {
				return err
			}
			if err := results.Keep(cmd, perf.Beside{A: a, B: b, Comparison: c}); err != nil {
				return err
			}
			if output != "table" {
				return command.PrintAs(cmd.OutOrStdout(), output, c)
			}
			out.Line("%s", c.Title())
			out.Line("")
			printComparison(out, c)
			return nil
		},
	}
	command.BindOutput(cmd, &output)
	results.Bind(cmd)
	return cmd
}

func oneOrTwoReports(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil // both are in one file
	}
	return command.Arguments("A.json", "B.json")(cmd, args)
}

// areOfLabs reports whether these are files of two labs' reports, which the program for load reads.
func areOfLabs(paths []string) bool {
	for _, path := range paths {
		var r struct {
			Kind string `json:"kind"`
		}
		encoded, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(encoded, &r) != nil || r.Kind != "lab" {
			return false
		}
	}
	return len(paths) == 2
}

// readReports reads the reports of two files, or both reports of one file.
func readReports(paths []string) (a, b perf.Report, err error) {
	var reports []perf.Report
	for _, path := range paths {
		encoded, err := os.ReadFile(path)
		var both perf.Beside
		switch {
		case err != nil:
		case len(paths) == 1:
			both, err = perf.ParseBeside(encoded)
			reports = []perf.Report{both.A, both.B}
		default:
			var r perf.Report
			r, err = perf.ParseReport(encoded)
			reports = append(reports, r)
		}
		if err != nil {
			return a, b, fmt.Errorf("%s: %w", path, err)
		}
	}
	return reports[0], reports[1], nil
}

func printComparison(out *terminal.Writer, c perf.Comparison) {
	out.Table(c.Table())
	if len(c.Differences) > 0 {
		out.Paragraph("the runs differ: ", terminal.Warn, strings.Join(c.Differences, "; "))
	}
}

// printBeside prints and keeps both reports of a run with two control planes, and their comparison.
func printBeside(cmd *cobra.Command, out *terminal.Writer, format string, a, b perf.Report) error {
	c, err := perf.Compare(a, b)
	if err != nil {
		return err
	}
	both := perf.Beside{A: a, B: b, Comparison: c}
	if err := results.Keep(cmd, both); err != nil {
		return err
	}
	if format != "table" {
		return command.PrintAs(cmd.OutOrStdout(), format, both)
	}
	out.Line("%s", a.Title())
	for _, r := range []perf.Report{a, b} {
		out.Line("")
		out.Line("%s", r.Subject())
		printTables(out, r)
	}
	out.Line("")
	printComparison(out, c)
	return nil
}
