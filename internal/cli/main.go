package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/inspect"
	"github.com/lateen-mesh/lateen/internal/cli/perf"
	"github.com/lateen-mesh/lateen/internal/cli/serve"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/cli/up"
)

// Main runs the command that the arguments name, until it ends or the process is interrupted. It
// returns the exit code: 0, 1 if the command failed, or 2 if the arguments are wrong.
func Main() int { return command.Main(newRoot()) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "lateen",
		Short: "A service-mesh control plane: Istio's API, stock Envoy, and a cost that follows the size of the change",
		Example: `  lateen up examples/bookinfo         # a mesh on this machine, without Kubernetes
  lateen status                       # each proxy, in sync or not; what is wrong in the manifests
  lateen proxy-config PROXY routes    # what a proxy was given`,
		Version:       build.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	out, progress := terminal.New(os.Stdout, os.Getenv), terminal.New(os.Stderr, os.Getenv)
	root.AddCommand(serve.Request(), up.Sample(), inspect.Inject())
	for _, looks := range []func(*terminal.Writer) *cobra.Command{
		inspect.Status, inspect.ProxyConfig, inspect.Version, inspect.Analyze, inspect.Plan, inspect.Advise,
		inspect.Describe, inspect.Authz, inspect.Dashboard, inspect.EnvoyFilter, inspect.History, inspect.Why,
		inspect.At, inspect.Blame, inspect.DiffConfig, inspect.Rollback,
		inspect.Cost,
	} {
		root.AddCommand(looks(out))
	}
	for _, starts := range []*cobra.Command{
		up.Command(out), serve.Command(), up.ControlPlane(), perf.ControlPlane(), perf.Sidecars(),
		perf.Command(out, progress),
	} {
		root.AddCommand(command.EndsItself(starts))
	}
	root.AddCommand(installerCommands()...)
	command.Fit(root)
	return root
}
