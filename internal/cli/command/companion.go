package command

import (
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Companion is a program that carries out some of this program's commands, so that building
// this one does not take what they link. It has them under the same names.
type Companion string

// Command returns a command whose arguments, and help, are the companion's business.
func (p Companion) Command(name, short, example string) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Example: example, DisableFlagParsing: true,
		RunE: p.Run,
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if err := p.exec(append(path(cmd), "--help")); err != nil {
			cmd.PrintErrln("lateen:", err)
		}
	})
	return cmd
}

// Run has the companion carry out a command, with these arguments. It returns only on error.
func (p Companion) Run(cmd *cobra.Command, args []string) error {
	return p.exec(append(path(cmd), args...))
}

// path returns the names of a command and those above it, without the program's.
func path(cmd *cobra.Command) []string { return strings.Fields(cmd.CommandPath())[1:] }

// exec replaces this process by the companion.
func (p Companion) exec(args []string) error {
	path, err := FindBeside(string(p))
	if err != nil {
		return err
	}
	return syscall.Exec(path, append([]string{string(p)}, args...), os.Environ()) //nolint:gosec // our own
}
