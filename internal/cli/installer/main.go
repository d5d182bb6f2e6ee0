package installer

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// version is set by the linker (Makefile).
var version = "dev"

// Main runs the command that the arguments name, and returns its exit code.
func Main() int { return command.Main(newRoot()) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "lateen", // people call it by that name
		Short:         "The commands of lateen that render charts",
		Example:       "  lateen manifest --image registry.example.com/lateen:v1 | kubectl apply -f -",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	notes := terminal.New(os.Stderr, os.Getenv)
	root.AddCommand(newManifest(notes))
	command.Fit(root)
	return root
}
