package inspect

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// Why returns the command why.
func Why(out *terminal.Writer) *cobra.Command { return whyCommand(out, &remote.Remote{}) }

func whyCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	f := historyFlags{remote: *r}
	cmd := &cobra.Command{
		Use:   "why PROXY [RESOURCE]",
		Short: "Which change made a proxy's configuration, or a resource of it, what it is",
		Long: `Shows the last change that gave a proxy another configuration, or another form of the resource with
this name (as lateen proxy-config shows it): the objects, their fields, and who wrote them.`,
		Example: `  lateen why checkout-7d9f8c6b5-x2x4q.shop
  lateen why checkout-7d9f8c6b5-x2x4q.shop 'outbound|80||basket.shop.svc.cluster.local'
  lateen why checkout-7d9f8c6b5-x2x4q.shop --limit 5`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.proxy = args[0]
			q, err := f.question(time.Now())
			if err != nil {
				return err
			}
			if len(args) > 1 {
				q.Resource = args[1]
			}
			past, err := f.ask(cmd.Context(), q)
			if err != nil {
				return err
			}
			if f.output != "table" {
				return command.PrintAs(cmd.OutOrStdout(), f.output, past)
			}
			printWhy(out, past)
			return nil
		},
	}
	f.remote.Bind(cmd)
	command.BindOutput(cmd, &f.output)
	cmd.Flags().IntVar(&f.limit, "limit", 1, "how many changes at most, the newest first")
	return cmd
}

func printWhy(out *terminal.Writer, past *page.History) {
	for i := range past.Generations {
		printGeneration(out, &past.Generations[i])
	}
	if len(past.Generations) > 0 {
		return
	}
	if past.Since.After(past.Connected) {
		out.Line("it did not change since %s; nothing is known of before", past.Since.Local().Format(time.DateTime))
		return
	}
	out.Line("it is as the proxy got it when it connected, at %s", past.Connected.Local().Format(time.DateTime))
}
