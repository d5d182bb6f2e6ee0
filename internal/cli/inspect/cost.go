package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// Cost returns the command cost.
func Cost(out *terminal.Writer) *cobra.Command { return costCommand(out, &remote.Remote{}) }

func costCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	var by, since, output string
	var limit int
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "What changes have cost the control plane, by namespace or object",
		Long: `Adds up what each change took: the time to convert, check and compile it, the proxies that were sent
something, and the bytes. What a batch of several objects took is shared evenly among them. What proxies get
when they connect is nobody's, and not counted.`,
		Example: `  lateen cost --by namespace --since 24h
  lateen cost --by object --since 14:00 --limit 10`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := page.CostQuestion{By: by}
			var err error
			if q.Since, err = timeOf(since, time.Now()); err != nil {
				return fmt.Errorf("--since: %w", err)
			}
			cost, err := askForCost(cmd.Context(), r, q)
			switch {
			case err != nil:
				return err
			case output != "table":
				return command.PrintAs(cmd.OutOrStdout(), output, cost)
			}
			printCost(out, cost, limit)
			return nil
		},
	}
	r.Bind(cmd)
	command.BindOutput(cmd, &output)
	flags := cmd.Flags()
	flags.StringVar(&by, "by", page.ByNamespace, "whose changes are added up")
	command.OneOf(cmd, "by", &by, page.ByNamespace, page.ByObject)
	flags.StringVar(&since, "since", "24h", "only from then on: a duration, a time of the day (14:02) or RFC 3339")
	flags.IntVar(&limit, "limit", 20, "how many rows of the table")
	command.ValidateFlag(flags, "limit", func() error {
		if limit < 1 {
			return errors.New("want a number from 1 on")
		}
		return nil
	})
	return cmd
}

// askForCost adds up what all replicas say.
func askForCost(ctx context.Context, r *remote.Remote, q page.CostQuestion) (*page.Cost, error) {
	endpoints, err := r.Endpoints(ctx)
	if err != nil {
		return nil, err
	}
	return costOf(ctx, endpoints, q)
}

func costOf(ctx context.Context, endpoints []remote.Endpoint, q page.CostQuestion) (*page.Cost, error) {
	costs, errs := remote.EachOf(endpoints, func(e remote.Endpoint) (page.Cost, error) {
		return remote.Read[page.Cost](ctx, e, page.Costing, q.Query())
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	all := page.Cost{Rows: []page.CostRow{}, Total: page.CostRow{Name: "total"}}
	places := map[string]int{}
	for _, c := range costs {
		for _, row := range c.Rows {
			at, known := places[row.Name]
			if !known {
				at = len(all.Rows)
				places[row.Name] = at
				all.Rows = append(all.Rows, page.CostRow{Name: row.Name})
			}
			addCost(&all.Rows[at], row)
		}
		addCost(&all.Total, c.Total)
		if c.Since.After(all.Since) { // from then on all know everything
			all.Since = c.Since
		}
	}
	slices.SortStableFunc(all.Rows, func(a, b page.CostRow) int { return compareCosts(&a, &b) })
	return &all, nil
}

// addCost adds what a change has cost another replica, which saw the same changes.
func addCost(row *page.CostRow, other page.CostRow) {
	changes := max(row.Changes, other.Changes)
	row.Add(other)
	row.Changes = changes
}

// compareCosts puts the more expensive first.
func compareCosts(a, b *page.CostRow) int {
	switch {
	case a.Seconds > b.Seconds:
		return -1
	case a.Seconds < b.Seconds:
		return 1
	}
	return 0
}

func printCost(out *terminal.Writer, c *page.Cost, limit int) {
	if c.Since.IsZero() {
		out.Line("nothing changed")
		return
	}
	table := terminal.Table{Header: []string{"OF", "CHANGES", "TIME", "SHARE", "PUSHES", "BYTES"}}
	add := func(row page.CostRow) {
		share := "-"
		if c.Total.Seconds > 0 {
			share = strconv.Itoa(int(100*row.Seconds/c.Total.Seconds+0.5)) + " %"
		}
		table.Row(row.Name, strconv.Itoa(row.Changes), secondsText(row.Seconds), share,
			strconv.FormatFloat(row.Pushes, 'f', 0, 64), strconv.FormatFloat(row.Bytes, 'f', 0, 64))
	}
	rest := page.CostRow{Name: fmt.Sprintf("%d more", len(c.Rows)-limit)}
	for i, row := range c.Rows {
		if i < limit {
			add(row)
		} else {
			rest.Add(row)
		}
	}
	if len(c.Rows) > limit {
		add(rest)
	}
	add(c.Total)
	out.Table(table)
	out.Line("since %s", c.Since.Local().Format(time.DateTime))
}
