package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
)

// loadTest is the program that sends requests and draws reports. It is apart from this one, because
// it links Fortio and charts.
const loadTest companion = "lateen-perf"

// loadTestCommands returns the commands of lateen perf that it carries out.
func loadTestCommands() []*cobra.Command {
	return []*cobra.Command{
		loadTest.command("data-plane", "What proxies add to requests, beside no proxy and beside hand-written Envoys",
			"  lateen perf data-plane --preset aks"),
		loadTest.command("lab", "Run a published test: its table, with Lateen's figures beside",
			"  lateen perf lab book"),
		loadTest.command("app", "Throughput of a realistic application, an airline, with and without the mesh",
			"  lateen perf app"),
		loadTest.command("gateway", "Routes of the Gateway API: propagation, 5,000 of them, changes under traffic",
			"  lateen perf gateway"),
		loadTest.command("report", "Draw the reports of a directory as one HTML file, versions side by side",
			"  lateen perf report results"),
	}
}

// reportDir is the flag of all commands of lateen perf that measure: the directory of their
// reports.
const reportDir = "report"

func bindReport(cmd *cobra.Command) {
	cmd.Flags().String(reportDir, "", "write the result into this directory as JSON, and an HTML report of all that "+
		"is there")
	_ = cmd.MarkFlagDirname(reportDir)
}

// keepReport writes a result into the directory of --report, under a name that sorts by time, and
// has all that is there drawn. Without the flag it does nothing.
func keepReport(cmd *cobra.Command, report any) error {
	dir, err := cmd.Flags().GetString(reportDir)
	if err != nil || dir == "" {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := cmd.Name() + "-" + time.Now().UTC().Format("20060102-150405.000") + ".json"
	file, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := errors.Join(printAs(file, "json", report), file.Close()); err != nil {
		return err
	}
	return loadTest.draw(context.WithoutCancel(cmd.Context()), dir)
}

// draw has the HTML report of a directory written.
func (p companion) draw(ctx context.Context, dir string) error {
	path, err := command.FindBeside(string(p))
	if err != nil {
		return err
	}
	//nolint:gosec // our own
	if out, err := exec.CommandContext(ctx, path, "perf", "report", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("the HTML report of %s: %w: %s", dir, err, out)
	}
	return nil
}
