package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// version is set by the linker (Makefile).
var version = "dev"

// istioVersion is the API level reported to proxies and tools.
const istioVersion = "1.31.0"

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// errFailed makes the exit code 1 without a message: the command has printed what failed.
var errFailed = errors.New("failed")

// Main runs the command that the arguments name, until it ends or the process is interrupted. It
// returns the exit code: 0, 1 if the command failed, or 2 if the arguments are wrong.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	return run(ctx, os.Args[1:])
}

func run(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	started := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups()); err != nil {
			return err
		}
		started = true
		return nil
	}
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFailed):
		return exitFailed
	case !started:
		fmt.Fprintf(os.Stderr, "lateen: %v\nSee '%s --help'.\n", err, cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "lateen: %v\n", err)
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "lateen",
		Short: "A service-mesh control plane: Istio's API, stock Envoy, and a cost that follows the size of the change",
		Example: `  lateen up examples/bookinfo         # a mesh on this machine, without Kubernetes
  lateen status                       # each proxy, in sync or not; what is wrong in the manifests
  lateen proxy-config PROXY routes    # what a proxy was given`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	out := terminal.New(os.Stdout, os.Getenv)
	root.AddCommand(newUp(out), newServe(), newManifest(), newInject(), newStatus(out), newProxyConfig(out),
		newSample(), newControlPlane(), newPerfServer(),
		newPerfApart(), newPerf(out, terminal.New(os.Stderr, os.Getenv)))
	fitHelp(root)
	root.SetUsageFunc(writeUsage)
	return root
}
