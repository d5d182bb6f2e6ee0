package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// writeUsage writes the end of a command's help as cobra does, but with flags wrapped at HelpWidth.
// It uses no template: a template calls methods by name, so the linker would keep every method of
// every type, a quarter of the program.
func writeUsage(cmd *cobra.Command) error {
	flags := cmd.LocalFlags() // first: it also sets up what Runnable and UseLine read
	var b strings.Builder
	b.WriteString("Usage:")
	if cmd.Runnable() {
		b.WriteString("\n  " + cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n  " + cmd.CommandPath() + " [command]")
	}
	if len(cmd.Aliases) > 0 {
		b.WriteString("\n\nAliases:\n  " + cmd.NameAndAliases())
	}
	if cmd.HasExample() {
		b.WriteString("\n\nExamples:\n" + cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n\nAvailable Commands:" + subcommands(cmd))
	}
	if flags.HasAvailableFlags() {
		b.WriteString("\n\nFlags:\n" + strings.TrimRight(flags.FlagUsagesWrapped(HelpWidth), " \n"))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n\nUse %q for more information about a command.", cmd.CommandPath()+" [command] --help")
	}
	b.WriteByte('\n')
	_, err := io.WriteString(cmd.OutOrStderr(), b.String())
	return err
}

// subcommands returns a line for each command with its name and what it does.
func subcommands(cmd *cobra.Command) string {
	var b strings.Builder
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" { // cobra does not count it
			fmt.Fprintf(&b, "\n  %-*s %s", c.NamePadding(), c.Name(), c.Short)
		}
	}
	return b.String()
}
