package loadtest

import (
	"os"

	"fortio.org/log"
	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/traffic"
)

// Main runs the command that the arguments name, and returns its exit code.
func Main() int {
	log.SetLogLevelQuiet(log.Critical) // requests that fail are counted
	return command.Main(newRoot())
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "lateen", // people call it by that name
		Short:         "The commands of lateen perf that send requests or draw reports",
		Example:       "  lateen perf data-plane --preset aks",
		Version:       build.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	perf := &cobra.Command{Use: "perf", Short: root.Short, Example: root.Example, Args: cobra.NoArgs}
	out, progress := terminal.New(os.Stdout, os.Getenv), terminal.New(os.Stderr, os.Getenv)
	perf.AddCommand(newDataPlane(out, progress), newLab(out, progress), newApp(out, progress),
		newJMeter(out, progress), newGateway(out, progress), newReport(out), newCompare(out))
	root.AddCommand(command.EndsItself(perf), command.EndsItself(newServer()), command.EndsItself(newAirline()))
	command.Fit(root)
	return root
}

// newServer makes the command that pods of the measured mesh run.
func newServer() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:     "server",
		Short:   "Fortio's echo servers, which the pods of a measured mesh run",
		Example: "  lateen-perf server --address 127.0.0.1",
		Hidden:  true,
		Args:    command.Arguments(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return traffic.Serve(cmd.Context(), address) },
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1", "the IP address to listen at")
	return cmd
}
