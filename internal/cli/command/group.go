package command

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// refuseUnknown makes all commands with others below them refuse words that are none, with the
// names that would fit. Without it cobra prints help, and the exit code is 0.
func refuseUnknown(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Args = func(_ *cobra.Command, args []string) error { return findTopic(root, args) }
			continue
		}
		refuseBelow(c)
	}
}

func refuseBelow(c *cobra.Command) {
	if !c.HasSubCommands() {
		return
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(cmd, args[0])
		}
		return nil
	}
	if !c.Runnable() {
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	for _, below := range c.Commands() {
		refuseBelow(below)
	}
}

// findTopic reports whether there is no such command to help with.
func findTopic(root *cobra.Command, topic []string) error {
	at := root
	for _, word := range topic {
		named := func(c *cobra.Command) bool { return c.Name() == word || c.HasAlias(word) }
		i := slices.IndexFunc(at.Commands(), named)
		if i < 0 {
			return unknown(at, word)
		}
		at = at.Commands()[i]
	}
	return nil
}

// unknown says which words would do: those that are like the given one, or all if there are few.
func unknown(c *cobra.Command, word string) error {
	const few = 12
	want := c.SuggestionsFor(word)
	if len(want) == 0 {
		for _, below := range c.Commands() {
			if below.IsAvailableCommand() {
				want = append(want, below.Name())
			}
		}
	}
	if len(want) == 0 || len(want) > few {
		return fmt.Errorf("%q is no command of %s", word, c.CommandPath())
	}
	return fmt.Errorf("%q is no command of %s: want %s", word, c.CommandPath(), Alternatives(want))
}

// wanted are the values that flags of a type take, in words.
var wanted = map[string]string{
	"int": "a whole number", "int32": "a whole number", "int64": "a whole number", "uint16": "a whole number",
	"float64": "a number", "duration": "a time, as 30s or 5m", "bool": "true or false",
}

// explainFlag says what a flag takes, where pflag says what a parser of Go found.
func explainFlag(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	var number *strconv.NumError
	want, known := wanted[invalid.GetFlag().Value.Type()]
	cause := errors.Unwrap(err)
	if !known || cause == nil || !errors.As(cause, &number) && !strings.HasPrefix(cause.Error(), "time: ") {
		return err
	}
	if number != nil && errors.Is(number.Err, strconv.ErrRange) {
		want += " that is not as large"
	}
	return fmt.Errorf("--%s %q: want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
}
