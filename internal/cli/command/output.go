package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// AtLeast makes a flag reject smaller values.
func AtLeast[T cmp.Ordered](flags *pflag.FlagSet, name string, value *T, least T) {
	ValidateFlag(flags, name, func() error {
		if *value < least {
			return fmt.Errorf("want %v or more", least)
		}
		return nil
	})
}

// BindOutput binds the flag -o of commands that print a table, JSON or YAML, and more forms if the
// command has them.
func BindOutput(cmd *cobra.Command, output *string, more ...string) {
	outputs := slices.Concat([]string{"table"}, more, []string{"json", "yaml"})
	cmd.Flags().StringVarP(output, "output", "o", outputs[0], Alternatives(outputs))
	OneOf(cmd, "output", output, outputs...)
}

// PrintAs prints a value as JSON or YAML.
func PrintAs(w io.Writer, format string, v any) error {
	var body []byte
	var err error
	switch format {
	case "yaml":
		body, err = yaml.Marshal(v)
	default:
		body, err = json.MarshalIndent(v, "", "  ")
		body = append(escaped(body), '\n')
	}
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}

// escaped returns JSON without raw characters that a terminal obeys. Inside of strings, which alone
// have such, JSON itself asks for no escape of those above U+001F.
func escaped(body []byte) []byte {
	if !bytes.ContainsFunc(body, obeyed) {
		return body
	}
	var out []byte
	for _, r := range string(body) {
		switch {
		case !obeyed(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

func obeyed(r rune) bool {
	return r != '\n' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r))
}
