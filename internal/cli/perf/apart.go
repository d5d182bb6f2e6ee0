package perf

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/perf/apart"
)

// perfApart is the command that runs the misbehaving sidecars of lateen perf.
const perfApart = "perf-sidecars"

// Sidecars returns the hidden command of the misbehaving sidecars.
func Sidecars() *cobra.Command {
	return &cobra.Command{
		Use: perfApart,
		Short: "Sidecars that misbehave beside those that lateen perf measures; it is told over the standard " +
			"input what they do",
		Hidden: true,
		Args:   command.Arguments(),
		RunE:   func(*cobra.Command, []string) error { return apart.Serve(os.Stdin, os.Stdout) },
	}
}
