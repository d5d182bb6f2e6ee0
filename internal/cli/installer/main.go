package installer

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// Main runs the command that the arguments name, and returns its exit code.
func Main() int { return command.Main(newRoot()) }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "lateen", // people call it by that name
		Short:         "The commands of lateen that render charts",
		Example:       "  lateen install --image registry.example.com/lateen:v1",
		Version:       build.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	out := terminal.New(os.Stdout, os.Getenv)
	notes := terminal.New(os.Stderr, os.Getenv)
	root.AddCommand(newInstall(out, notes), newUpgrade(out, notes), newDiff(out, notes), newVerify(out),
		newUninstall(out), newPrecheck(out, notes), newManifest(notes), newTag(out, notes),
		newWorkload(out))
	command.Fit(root)
	return root
}
