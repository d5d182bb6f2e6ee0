package loadtest

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/lab"
)

// newCompare makes the command that compares two reports of one lab. lateen perf compare runs it
// for such reports.
func newCompare(out *terminal.Writer) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "compare A.json B.json",
		Short:   "Two reports of one lab side by side",
		Example: "  lateen perf compare aks-churn-1.json aks-churn-2.json",
		Args:    command.Arguments("A.json", "B.json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := compareFiles(args[0], args[1])
			if err != nil {
				return err
			}
			if output != "table" {
				return command.PrintAs(cmd.OutOrStdout(), output, c)
			}
			out.Line("lab %s", c.Lab)
			out.Line("")
			out.Table(c.Terminal())
			if len(c.Differences) > 0 {
				out.Paragraph("the runs differ: ", terminal.Warn, strings.Join(c.Differences, "; "))
			}
			return nil
		},
	}
	command.BindOutput(cmd, &output)
	return cmd
}

func compareFiles(a, b string) (lab.Comparison, error) {
	var reports [2]lab.Report
	for i, path := range []string{a, b} {
		encoded, err := os.ReadFile(path)
		if err == nil {
			reports[i], err = lab.ParseReport(encoded)
		}
		if err != nil {
			return lab.Comparison{}, fmt.Errorf("%s: %w", path, err)
		}
	}
	return lab.Compare(reports[0], reports[1])
}
