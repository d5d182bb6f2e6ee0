package command

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Line returns a command with the flags that were set.
func Line(cmd *cobra.Command) string {
	words := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		word := "--" + f.Name
		if f.Value.Type() != "bool" {
			word += " " + Quoted(strings.Trim(f.Value.String(), "[]")) // the brackets of lists
		} else if f.Value.String() != "true" {
			word += "=" + f.Value.String()
		}
		words = append(words, word)
	})
	return strings.Join(words, " ")
}

// Quoted quotes a word for a shell.
func Quoted(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\$`|&;()<>*?#~") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
