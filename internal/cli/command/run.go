package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	ExitFailed = 1
	ExitUsage  = 2
)

// ErrFailed makes the exit code 1 without a message: the command has printed what failed.
var ErrFailed = errors.New("failed")

// ExitCode is an error that sets the exit code without a message: the command has printed why.
type ExitCode int

// Error implements error.
func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Main runs the command that the arguments name, until it ends or the process is interrupted. It
// returns the exit code: 0, 1 if the command failed, or 2 if the arguments are wrong.
func Main(root *cobra.Command) int { return runUntilSignal(root, os.Args[1:], grace) }

// Run is Main with arguments and a context.
func Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	refuseUnknown(root)
	root.SetFlagErrorFunc(explainFlag)
	started := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups()); err != nil {
			return err
		}
		started = true
		return nil
	}
	cmd, err := root.ExecuteContextC(ctx)
	var code ExitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, ErrFailed):
		return ExitFailed
	case !started:
		fmt.Fprintf(os.Stderr, "%s: %v\nSee '%s --help'.\n", root.Name(), err, cmd.CommandPath())
		return ExitUsage
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", root.Name(), err)
	return ExitFailed
}

// Fit wraps the help of a command and all below it at a width of 100 columns.
func Fit(root *cobra.Command) {
	fitHelp(root)
	wrapped := fmt.Sprintf(".FlagUsagesWrapped %d", HelpWidth)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", wrapped))
}
