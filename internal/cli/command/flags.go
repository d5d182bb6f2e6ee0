package command

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// validatedValue is a flag that rejects an invalid value while the command line is parsed. So the
// command has done nothing yet, and the exit code is that of wrong usage.
type validatedValue struct {
	pflag.Value
	check func() error // validates the present value
}

// Set implements pflag.Value.
func (r validatedValue) Set(text string) error {
	if err := r.Value.Set(text); err != nil {
		return err
	}
	return r.check()
}

// ValidateFlag makes a flag reject the values for which check fails.
func ValidateFlag(flags *pflag.FlagSet, name string, check func() error) {
	f := flags.Lookup(name)
	f.Value = validatedValue{f.Value, check}
}

// OneOf makes a flag reject other values, and completes these in a shell.
func OneOf(cmd *cobra.Command, name string, value *string, values ...string) {
	ValidateFlag(cmd.Flags(), name, func() error {
		if !slices.Contains(values, *value) {
			return errors.New("want " + Alternatives(values))
		}
		return nil
	})
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// Alternatives joins words as in a sentence: "a, b or c".
func Alternatives(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Arguments requires exactly these arguments, named as in the command's usage.
func Arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("%s is missing: want %s", names[len(args)], cmd.UseLine())
		case len(args) > len(names):
			return fmt.Errorf("%q is one argument too many: want %s", args[len(names)], cmd.UseLine())
		}
		return nil
	}
}

// HelpWidth is the width of help texts in columns.
const HelpWidth = 100

// fitHelp wraps the descriptions of a command and its subcommands at HelpWidth.
func fitHelp(cmd *cobra.Command) {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(cmd.Long, "\n\n") {
		if !strings.HasPrefix(paragraph, " ") { // otherwise it is a list
			paragraph = strings.Join(terminal.Wrap(strings.ReplaceAll(paragraph, "\n", " "), HelpWidth), "\n")
		}
		paragraphs = append(paragraphs, paragraph)
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
	for _, c := range cmd.Commands() {
		fitHelp(c)
	}
}

// HostPort makes a flag reject values that are neither HOST:PORT nor empty.
func HostPort(flags *pflag.FlagSet, name string, value *string) {
	ValidateFlag(flags, name, func() error {
		if _, _, err := net.SplitHostPort(*value); err != nil && *value != "" {
			return errors.New("want HOST:PORT, as 127.0.0.1:15010")
		}
		return nil
	})
}
