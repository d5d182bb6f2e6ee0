package inspect

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// DiffConfig returns the command diff-config.
func DiffConfig(out *terminal.Writer) *cobra.Command { return diffConfigCommand(out, &remote.Remote{}) }

// nowTime stands for the present in place of a time.
const nowTime = "now"

func diffConfigCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "diff-config FROM TO PROXY|WORKLOAD",
		Short: "In what a proxy's configuration differs between two times",
		Long: `Shows the resources of a proxy that differ between two times, with their fields. A time is a duration ago
(1h), a time of the day (14:02), RFC 3339, or "now". Of a workload, NAME.NAMESPACE, the proxy is shown
that is connected for the longest time.`,
		Example: `  lateen diff-config 13:00 14:00 checkout-7d9f8c6b5-x2x4q.shop
  lateen diff-config 1h now checkout.shop -o yaml`,
		Args: command.Arguments("FROM", "TO", "PROXY|WORKLOAD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := diffQuestion(args[0], args[1], time.Now())
			if err != nil {
				return err
			}
			at, proxy, err := proxyOrWorkload(cmd.Context(), r, args[2])
			if err != nil {
				return err
			}
			q.Proxy = proxy.ProxyID
			diff, err := remote.Read[page.ConfigDiff](cmd.Context(), at, page.Differing, q.Query())
			switch {
			case err != nil:
				return err
			case output != "table":
				return command.PrintAs(cmd.OutOrStdout(), output, diff)
			}
			printConfigDiff(out, &diff)
			return nil
		},
	}
	r.Bind(cmd)
	command.BindOutput(cmd, &output)
	return cmd
}

func diffQuestion(from, to string, now time.Time) (q page.DiffQuestion, err error) {
	for _, of := range []struct {
		text string
		into *time.Time
	}{{from, &q.From}, {to, &q.To}} {
		if of.text == nowTime {
			continue
		}
		if *of.into, err = timeOf(of.text, now); err != nil {
			return q, err
		}
		if of.into.IsZero() {
			return q, fmt.Errorf("want a time, or %s", nowTime)
		}
	}
	if q.From.IsZero() || !q.To.IsZero() && q.To.Before(q.From) {
		return q, fmt.Errorf("from %s to %s: want the earlier time first", from, to)
	}
	return q, nil
}

// proxyOrWorkload returns the connected proxy of a name, or else of a workload, "name.namespace",
// the one that is connected for the longest time.
func proxyOrWorkload(ctx context.Context, r *remote.Remote, name string) (remote.Endpoint, proxyLine, error) {
	at, proxy, err := proxyNamed(ctx, r, name)
	if err == nil {
		return at, proxy, nil
	}
	workload, namespace, _ := strings.Cut(name, ".")
	report, failed := askStatus(ctx, r)
	if failed != nil {
		return at, proxy, err
	}
	var of []proxyLine
	for _, p := range report.Proxies {
		if isPodOf(strings.TrimSuffix(p.ProxyID, "."+namespace), workload) {
			of = append(of, p)
		}
	}
	if len(of) == 0 {
		return at, proxy, err
	}
	oldest := slices.MinFunc(of, func(a, b proxyLine) int { return a.ConnectedAt.Compare(b.ConnectedAt) })
	return proxyNamed(ctx, r, oldest.ProxyID)
}

// podSuffix is what controllers add to a workload's name: the hash of a ReplicaSet and five letters
// of an alphabet without vowels (k8s.io/apimachinery/pkg/util/rand), or a place in a StatefulSet.
var podSuffix = regexp.MustCompile(strings.ReplaceAll(
	`^-((L{6,10}-)?L{5}|\d+)$`, "L", "[bcdfghjklmnpqrstvwxz2456789]",
))

func isPodOf(pod, workload string) bool {
	suffix, has := strings.CutPrefix(pod, workload)
	return has && podSuffix.MatchString(suffix)
}

func printConfigDiff(out *terminal.Writer, d *page.ConfigDiff) {
	out.Line("%s, from %s to %s", d.Proxy, d.From.Local().Format(time.DateTime), d.To.Local().Format(time.DateTime))
	for _, c := range d.Changes {
		printPlannedChange(out, c)
	}
	switch {
	case d.Left > 0:
		out.Line("  and %d more resources", d.Left)
	case len(d.Changes) == 0:
		out.Line("  nothing differs")
	}
	for _, name := range d.Forgotten {
		out.Line("  "+forgottenNote, name)
	}
}
