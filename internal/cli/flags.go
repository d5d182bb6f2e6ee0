package cli

import (
	"cmp"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lateen-mesh/lateen/internal/cli/command"
)

// atLeast makes a flag reject smaller values.
func atLeast[T cmp.Ordered](flags *pflag.FlagSet, name string, value *T, least T) {
	command.AtLeast(flags, name, value, least)
}

// hostPort makes a flag reject values that are neither HOST:PORT nor empty.
func hostPort(flags *pflag.FlagSet, name string, value *string) { command.HostPort(flags, name, value) }

// validateFlag makes a flag reject the values for which check fails.
func validateFlag(flags *pflag.FlagSet, name string, check func() error) {
	command.ValidateFlag(flags, name, check)
}

// oneOf makes a flag reject other values, and completes these in a shell.
func oneOf(cmd *cobra.Command, name string, value *string, values ...string) {
	command.OneOf(cmd, name, value, values...)
}

// bindOutput binds the flag -o of commands that print a table, JSON or YAML.
func bindOutput(cmd *cobra.Command, output *string) { command.BindOutput(cmd, output) }

// printAs prints a value as JSON or YAML.
func printAs(w io.Writer, format string, v any) error { return command.PrintAs(w, format, v) }

// arguments requires exactly these arguments, named as in the command's usage.
func arguments(names ...string) cobra.PositionalArgs { return command.Arguments(names...) }

// alternatives joins words as in a sentence: "a, b or c".
func alternatives(words []string) string { return command.Alternatives(words) }
