package perf

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/results"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/flame"
)

// printPerf prints and keeps a report, which may be partial.
func printPerf(cmd *cobra.Command, out *terminal.Writer, format string, r perf.Report) error {
	if len(r.Phases) > 0 {
		if err := results.Keep(cmd, r); err != nil {
			return err
		}
	}
	if format != "table" {
		return command.PrintAs(cmd.OutOrStdout(), format, r)
	}
	if len(r.Phases) == 0 && len(r.Capacity) == 0 {
		return nil
	}
	out.Line("%s", r.Title())
	out.Line("")
	printTables(out, r)
	return nil
}

func printTables(out *terminal.Writer, r perf.Report) {
	if len(r.Capacity) > 0 {
		out.Table(r.CapacityTable())
	}
	if len(r.Capacity) > 0 && len(r.Phases) > 0 {
		out.Line("")
	}
	if len(r.Phases) > 0 {
		out.Table(r.PhaseTable())
	}
	for _, n := range r.Notes {
		out.Paragraph("", terminal.Faint, n)
	}
}

// minFrameShare is the share of the total below which a flame graph omits functions.
const minFrameShare = 0.005

// saveProfile writes the profile of a phase and its flame graph.
func saveProfile(dir, phase, command string, profile []byte) error {
	base := filepath.Join(dir, phase)
	if err := os.WriteFile(base+".pprof", profile, 0o644); err != nil {
		return err
	}
	tree, err := flame.Read(profile)
	if err != nil {
		return err
	}
	return os.WriteFile(base+".svg", tree.Prune(minFrameShare).SVG(phase+": "+command), 0o644)
}
