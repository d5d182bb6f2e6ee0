// Package discovery puts the program lateen-discovery together: the control plane and nothing else.
// Images run it. It has no tools, so that servers hold no pages of them in memory.
//
// It may import cli/command and cli/serve.
package discovery

import (
	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/serve"
)

// Main runs the command that the arguments name, until it ends or the process is interrupted. It
// returns the exit code: 0, 1 if the command failed, or 2 if the arguments are wrong.
func Main() int { return command.Main(newRoot()) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "lateen-discovery",
		Short: "The control plane of Lateen: Istio's API, stock Envoy, and a cost that follows the size of the change",
		Example: `  lateen-discovery serve                           # in a cluster
  lateen-discovery serve --config-dir manifests    # of a directory
  lateen-discovery request GET debug/syncz         # beside a control plane: one of its pages`,
		Version:       build.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	served := serve.Command()
	served.Aliases = []string{"discovery"} // pilot-discovery's name
	root.AddCommand(command.EndsItself(served), serve.Request())
	command.Fit(root)
	return root
}
