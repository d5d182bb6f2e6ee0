// Package results owns the flag --report of commands that measure, and what they keep by it.
//
// It may import cli/command.
package results

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

// LoadTest is the program that sends requests, and draws reports. It is apart from others, because
// it links Fortio and charts.
const LoadTest command.Companion = "lateen-perf"

// Flag is that of all commands that measure: the directory of their reports.
const Flag = "report"

// Bind binds the flag.
func Bind(cmd *cobra.Command) {
	cmd.Flags().String(Flag, "", "write the result into this directory as JSON, and an HTML report of all that "+
		"is there")
	_ = cmd.MarkFlagDirname(Flag)
}

// Keep writes a result into the directory of --report, under a name that sorts by time, and
// has all that is there drawn. Without the flag it does nothing.
func Keep(cmd *cobra.Command, report any) error {
	dir, err := cmd.Flags().GetString(Flag)
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
	if err := errors.Join(command.PrintAs(file, "json", report), file.Close()); err != nil {
		return err
	}
	return draw(context.WithoutCancel(cmd.Context()), dir)
}

// draw has the HTML report of a directory written.
func draw(ctx context.Context, dir string) error {
	path, err := command.FindBeside(string(LoadTest))
	if err != nil {
		return err
	}
	//nolint:gosec // our own
	if out, err := exec.CommandContext(ctx, path, "perf", "report", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("the HTML report of %s: %w: %s", dir, err, out)
	}
	return nil
}
