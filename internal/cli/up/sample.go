package up

import (
	"flag"
	"os"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/local/sample"
)

// Sample returns the command of the sample server.
func Sample() *cobra.Command {
	var o sample.Options
	flags := flag.NewFlagSet("sample", flag.ContinueOnError)
	o.Bind(flags, os.Getenv)
	cmd := &cobra.Command{
		Use:   "sample",
		Short: "The built-in sample server: what containers of the image lateen/sample run",
		Example: `  lateen sample --port 9080 --version v2
  lateen sample --role productpage --port 9080`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Log = os.Stderr
			return sample.Run(cmd.Context(), o, nil)
		},
	}
	cmd.Flags().AddGoFlagSet(flags)
	return cmd
}
