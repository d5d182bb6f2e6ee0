package inspect

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// explained is the output of lateen envoyfilter explain: what each replica says of the proxies that
// are connected to it.
type explained struct {
	Replicas []explainedBy `json:"replicas"`
}

type explainedBy struct {
	Replica string `json:"replica"`
	page.PatchEffects
}

// EnvoyFilter returns the command envoyfilter, with those below it.
func EnvoyFilter(out *terminal.Writer) *cobra.Command {
	return envoyFilterCommand(out, &remote.Remote{})
}

func envoyFilterCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use: "envoyfilter", Aliases: []string{"ef"},
		Short:   "What EnvoyFilters do to the configuration of proxies",
		Example: "  lateen envoyfilter explain local-limit.shop",
	}
	cmd.AddCommand(explainCommand(out, r))
	return cmd
}

func explainCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	own, output, kind := *r, "", string(kinds.EnvoyFilter)
	cmd := &cobra.Command{
		Use:   "explain NAME[.NAMESPACE]",
		Short: "What each patch matches, and the configuration without it and with it",
		Long: "What each patch of an EnvoyFilter matches, what became of it, and what proxies would have " +
			"without the EnvoyFilter. Without a namespace it is default.",
		Example: `  lateen envoyfilter explain local-limit.shop
  lateen envoyfilter explain headers.istio-system -o json`,
		Args: command.Arguments("NAME[.NAMESPACE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, namespace := splitName(args[0])
			q := page.ObjectQuestion{Kind: kind, Namespace: cmp.Or(namespace, "default"), Name: name}
			all, err := explain(cmd.Context(), &own, q)
			if err != nil {
				return err
			}
			if output != "table" {
				return command.PrintAs(cmd.OutOrStdout(), output, all)
			}
			for i, e := range all.Replicas {
				if i > 0 {
					out.Line("")
				}
				printPatches(out, &e)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&kind, "kind", kind, "kind of the object, where another one than EnvoyFilter adds filters")
	own.Bind(cmd)
	command.BindOutput(cmd, &output)
	return cmd
}

// explain asks all replicas: each knows what the proxies have that are connected to it.
func explain(ctx context.Context, r *remote.Remote, q page.ObjectQuestion) (*explained, error) {
	endpoints, err := r.Endpoints(ctx)
	if err != nil {
		return nil, err
	}
	var all explained
	for _, e := range endpoints {
		effects, err := remote.Read[page.PatchEffects](ctx, e, page.Patches, q.Query())
		if err != nil {
			return nil, err
		}
		all.Replicas = append(all.Replicas, explainedBy{e.Name, effects})
	}
	return &all, nil
}

func printPatches(out *terminal.Writer, e *explainedBy) {
	out.Line("%s %s/%s, by %s", e.Kind, e.Namespace, e.Name, e.Replica)
	table := terminal.Table{Header: []string{"PATCH", "APPLY TO", "OPERATION", "FOR", "MATCHES", "LEFT OUT"}}
	for _, p := range e.Patches {
		table.Row(
			strconv.Itoa(p.Patch), p.Target, p.Operation, proxiesText(p.Selected), matchesText(p),
			strconv.Itoa(p.Failed),
		)
	}
	out.Table(table)
	for _, p := range e.Problems {
		style := terminal.Warn
		if strings.HasPrefix(p, "error") {
			style = terminal.Bad
		}
		out.Paragraph("", style, p)
	}
	for _, of := range e.Effects {
		out.Line("")
		out.Line("%s, as %s has it (- without the %s, + with it)", proxiesText(of.Proxies), of.Proxy, e.Kind)
		for _, c := range of.Changes {
			printChange(out, c)
		}
		if of.Left > 0 {
			out.Line("and %d more", of.Left)
		}
	}
}

func proxiesText(n int) string {
	if n == 1 {
		return "1 proxy"
	}
	return fmt.Sprintf("%d proxies", n)
}

func matchesText(p page.PatchEffect) string {
	if p.Resources == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d resources of %s", p.Resources, proxiesText(p.Proxies))
}

// linesOf returns the lines of a text, with their ends.
func linesOf(text string) (all []string) {
	for line := range strings.Lines(text) {
		all = append(all, line)
	}
	return all
}

// printChange prints the lines that differ, with some around them.
func printChange(out *terminal.Writer, c page.ChangedResource) {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: linesOf(c.Without), B: linesOf(c.With), Context: 3,
		FromFile: c.Type + " " + c.Name, ToFile: c.Type + " " + c.Name,
	})
	if err != nil {
		out.Line("%s %s: %v", c.Type, c.Name, err)
		return
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "--- "): // the head of the next line names it too
		case strings.HasPrefix(line, "+++ "):
			out.Line("%s", strings.TrimPrefix(line, "+++ "))
		case strings.HasPrefix(line, "+"):
			out.Line("%s", out.Paint(terminal.Good, line))
		case strings.HasPrefix(line, "-"):
			out.Line("%s", out.Paint(terminal.Bad, line))
		default:
			out.Line("%s", line)
		}
	}
}
