package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"

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

// BindOutput binds the flag -o of commands that print a table, JSON or YAML.
func BindOutput(cmd *cobra.Command, output *string) {
	outputs := []string{"table", "json", "yaml"}
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
		body = append(body, '\n')
	}
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}
