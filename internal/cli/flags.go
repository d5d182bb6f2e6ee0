package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lateen-mesh/lateen/internal/terminal"
)

// restricted is a flag that refuses a value which cannot be meant, when the command line is read: before anything is done, and with the
// exit code of a mistake in the command line.
type restricted struct {
	pflag.Value
	check func() error // of what was set last
}

// Set implements pflag.Value.
func (r restricted) Set(text string) error {
	if err := r.Value.Set(text); err != nil {
		return err
	}
	return r.check()
}

func restrict(flags *pflag.FlagSet, name string, check func() error) {
	f := flags.Lookup(name)
	f.Value = restricted{f.Value, check}
}

// atLeast refuses smaller values of a flag.
func atLeast[T cmp.Ordered](flags *pflag.FlagSet, name string, value *T, least T) {
	restrict(flags, name, func() error {
		if *value < least {
			return fmt.Errorf("want %v or more", least)
		}
		return nil
	})
}

// oneOf refuses other values of a flag, and lets a shell complete these.
func oneOf(cmd *cobra.Command, name string, value *string, values ...string) {
	restrict(cmd.Flags(), name, func() error {
		if !slices.Contains(values, *value) {
			return errors.New("want " + alternatives(values))
		}
		return nil
	})
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// alternatives joins words as a sentence does: "a, b or c".
func alternatives(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// hostPort refuses values of a flag that are no address of a port; an empty one stays allowed.
func hostPort(flags *pflag.FlagSet, name string, value *string) {
	restrict(flags, name, func() error {
		if _, _, err := net.SplitHostPort(*value); err != nil && *value != "" {
			return errors.New("want HOST:PORT, as 127.0.0.1:15010")
		}
		return nil
	})
}

// arguments asks for exactly these arguments, named as in the command's usage.
func arguments(names ...string) cobra.PositionalArgs {
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

// helpWidth is how many columns help takes at most.
const helpWidth = 100

// fitHelp breaks what a command and those below it say of themselves into lines of helpWidth; writeUsage does so with their flags.
func fitHelp(cmd *cobra.Command) {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(cmd.Long, "\n\n") {
		if !strings.HasPrefix(paragraph, " ") { // else its lines are a list
			paragraph = strings.Join(terminal.Wrap(strings.ReplaceAll(paragraph, "\n", " "), helpWidth), "\n")
		}
		paragraphs = append(paragraphs, paragraph)
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
	for _, c := range cmd.Commands() {
		fitHelp(c)
	}
}
