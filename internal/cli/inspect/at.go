package inspect

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// At returns the command at.
func At(out *terminal.Writer) *cobra.Command { return atCommand(out, &remote.Remote{}) }

func atCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	return &cobra.Command{
		Use:   "at TIME proxy-config PROXY KIND",
		Short: "What a proxy was given at an earlier time",
		Long: `Shows what the control plane gave to a proxy at a time, as proxy-config does with --at TIME. TIME is a
duration ago (1h), a time of the day (14:02) or RFC 3339.`,
		Example: `  lateen at 14:02 proxy-config checkout-7d9f8c6b5-x2x4q.shop routes
  lateen at 1h pc checkout clusters --fqdn basket.shop.svc.cluster.local -o yaml`,
		DisableFlagParsing: true, // they are proxy-config's
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 || args[0] == "-h" || args[0] == "--help":
				return cmd.Help()
			case len(args) == 1 || args[1] != "proxy-config" && args[1] != "pc":
				return fmt.Errorf("%s: want %s", strings.Join(args, " "), cmd.UseLine())
			}
			if _, err := pastOf(args[0]); err != nil {
				return fmt.Errorf("TIME: %w", err)
			}
			then := proxyConfigCommand(out, r)
			then.SetArgs(append(args[2:len(args):len(args)], "--at="+args[0]))
			then.SetOut(cmd.OutOrStdout())
			then.SetErr(cmd.ErrOrStderr())
			then.SetIn(cmd.InOrStdin())
			then.SilenceUsage, then.SilenceErrors = true, true
			return then.ExecuteContext(cmd.Context())
		},
	}
}

// pastOf reads a time that has been, and returns it as pages take it.
func pastOf(text string) (string, error) {
	then, err := timeOf(text, time.Now())
	switch {
	case err != nil:
		return "", err
	case then.IsZero():
		return "", errors.New("want a time")
	}
	return then.Format(time.RFC3339Nano), nil
}

// forgottenNote says that of a resource nothing but its version is remembered.
const forgottenNote = "note: %v: its content is not remembered, only that it was there"

// tellForgotten says on the standard error what of a configuration of the past is not remembered.
func (d *configDump) tellForgotten(cmd *cobra.Command) {
	for _, c := range d.configs {
		part, _ := c.(map[string]any)
		value, _ := part["value"].(map[string]any)
		names, _ := value[page.Forgotten].([]any)
		for _, name := range names {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), forgottenNote+"\n", name)
		}
	}
}
