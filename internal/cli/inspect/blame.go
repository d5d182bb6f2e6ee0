package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// Blame returns the command blame.
func Blame(out *terminal.Writer) *cobra.Command { return blameCommand(out, &remote.Remote{}) }

// blamedTypes are the short names of types by what people call them.
func blamedTypes() map[string]string {
	return map[string]string{
		"cluster": "cds", "listener": "lds", "route": "vhds", "table": "rds", "endpoint": "eds", "filter": "ecds",
	}
}

func blameCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "blame PROXY cluster|listener|route|endpoint|table|filter NAME",
		Short: "Which change made each part of a proxy's resource what it is",
		Long: `Shows the fields of a resource that changed since the control plane remembers, each with the change that
gave it its value: the objects, who wrote them and when. NAME may be a part of a name that fits one
resource. A route is a virtual host; table is a route table without those.`,
		Example: `  lateen blame checkout-7d9f8c6b5-x2x4q.shop route basket.shop
  lateen blame checkout-7d9f8c6b5-x2x4q.shop cluster 'outbound|80||basket.shop.svc.cluster.local'`,
		Args: command.Arguments("PROXY", "cluster|listener|route|endpoint|table|filter", "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			typ, known := blamedTypes()[strings.TrimSuffix(args[1], "s")]
			if !known {
				return fmt.Errorf("%q: want cluster, listener, route, endpoint, table or filter", args[1])
			}
			at, proxy, err := proxyNamed(cmd.Context(), r, args[0])
			if err != nil {
				return err
			}
			q := page.BlameQuestion{Proxy: proxy.ProxyID, Type: typ, Name: args[2]}
			blame, err := remote.Read[page.Blame](cmd.Context(), at, page.Blaming, q.Query())
			if err != nil {
				return err
			}
			if output != "table" {
				return command.PrintAs(cmd.OutOrStdout(), output, blame)
			}
			printBlame(out, &blame)
			return nil
		},
	}
	r.Bind(cmd)
	command.BindOutput(cmd, &output)
	return cmd
}

// printBlame prints parts by the change that made them, the newest first.
func printBlame(out *terminal.Writer, b *page.Blame) {
	out.Line("%s", out.Paint(terminal.Bold, b.Type+" "+b.Name))
	for i := range b.Changes {
		by := &b.Changes[i]
		printBlamed(out, by)
		printFields(out, "    ", by.Parts, 0)
		if by.Rest {
			out.Line("    all else")
			return
		}
	}
	out.Line("all else is older than %s, before which nothing is known", b.Since.Local().Format(time.DateTime))
}

func printBlamed(out *terminal.Writer, by *page.BlamedChange) {
	if by.Generation == 0 {
		out.Line("%s  the proxy came back, and got what it had missed", by.At.Local().Format(time.DateTime))
	} else {
		out.Line("%s  generation %d", by.At.Local().Format(time.DateTime), by.Generation)
	}
	for i := range by.Causes {
		if i == shownCauses {
			break
		}
		out.Line("  %s%s", causeText(&by.Causes[i]), writtenText(&by.Causes[i]))
	}
	if more := len(by.Causes) + by.MoreCauses - shownCauses; more > 0 {
		out.Line("  and %d more objects", more)
	}
}

// shownCauses is how many objects of a change are shown beside a part.
const shownCauses = 5
