package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// historyFlags say which generations are shown.
type historyFlags struct {
	remote                   remote.Remote
	since, until             string
	object, namespace, proxy string
	limit                    int
	details                  bool
	output                   string
}

// History returns the command history.
func History(out *terminal.Writer) *cobra.Command { return historyCommand(out, &remote.Remote{}) }

func historyCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	f := historyFlags{remote: *r}
	f.remote.AlsoCluster = true
	cmd := &cobra.Command{
		Use:   "history",
		Short: "What changed in the mesh: the objects, who wrote them, and what became of it",
		Long: `Lists the changes that the control plane published, the newest first: the objects that caused each,
who wrote them (of their managedFields), for how many proxies it was, and how long they took to have it.
Each replica remembers its own, in memory.`,
		Example: `  lateen history --since 1h
  lateen history --since 14:00 --until 14:05 --details
  lateen history --object VirtualService/shop/checkout --details
  lateen history --proxy checkout-7d9f8c6b5-x2x4q.shop -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, out) },
	}
	f.remote.Bind(cmd)
	command.BindOutput(cmd, &f.output)
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "", "only from then on: a duration (1h), a time of the day (14:02) or RFC 3339")
	flags.StringVar(&f.until, "until", "", "only until then")
	flags.StringVar(&f.object, "object", "", "only of this object: KIND/NAMESPACE/NAME")
	flags.StringVarP(&f.namespace, remote.FlagNamespace, "n", "", "only of objects of this namespace")
	flags.StringVar(&f.proxy, "proxy", "", "only what is for this proxy")
	flags.IntVar(&f.limit, "limit", 50, "how many at most")
	flags.BoolVar(&f.details, "details", false, "also fields, resources and problems")
	cmd.MarkFlagsMutuallyExclusive("object", remote.FlagNamespace)
	return cmd
}

func (f *historyFlags) run(cmd *cobra.Command, out *terminal.Writer) error {
	q, err := f.question(time.Now())
	if err != nil {
		return err
	}
	past, err := f.ask(cmd.Context(), q)
	switch {
	case err != nil:
		return err
	case f.output != "table":
		return command.PrintAs(cmd.OutOrStdout(), f.output, past)
	case f.details:
		printDetails(out, past)
	default:
		printHistory(out, past)
	}
	return nil
}

// question is what the flags ask for.
func (f *historyFlags) question(now time.Time) (q page.HistoryQuestion, err error) {
	q = page.HistoryQuestion{Limit: f.limit, Object: page.ObjectQuestion{Namespace: f.namespace}}
	if q.Since, err = timeOf(f.since, now); err != nil {
		return q, fmt.Errorf("--since: %w", err)
	}
	if q.Until, err = timeOf(f.until, now); err != nil {
		return q, fmt.Errorf("--until: %w", err)
	}
	if !q.Until.IsZero() && q.Until.Before(q.Since) {
		return q, fmt.Errorf("--until = %s: want a time after --since = %s", f.until, f.since)
	}
	if f.object != "" {
		if q.Object, err = objectOf(f.object); err != nil {
			return q, fmt.Errorf("--object: %w", err)
		}
	}
	if f.limit < 1 || f.limit > mostShown {
		return q, fmt.Errorf("--limit = %d: want a number from 1 to %d", f.limit, mostShown)
	}
	return q, nil
}

// mostShown is how many changes a replica tells at most.
const mostShown = 1000

// objectOf reads "KIND/NAMESPACE/NAME", or "KIND/NAME" of a kind without namespaces. The kind may
// be in any case.
func objectOf(text string) (q page.ObjectQuestion, err error) {
	switch parts := strings.Split(text, "/"); {
	case slices.Contains(parts, ""):
	case len(parts) == 2:
		q = page.ObjectQuestion{Kind: parts[0], Name: parts[1]}
	case len(parts) == 3:
		q = page.ObjectQuestion{Kind: parts[0], Namespace: parts[1], Name: parts[2]}
	}
	if q.Name == "" {
		return q, fmt.Errorf("%q: want KIND/NAMESPACE/NAME, as in VirtualService/shop/checkout", text)
	}
	if q.Kind, err = kindNamed(q.Kind); err != nil {
		return q, fmt.Errorf("%q: %w", text, err)
	}
	return q, nil
}

// kindNamed returns the kind of a name, which may have its group, as in
// Gateway.gateway.networking.k8s.io: it must where kinds of several groups have the same name.
func kindNamed(text string) (string, error) {
	var found, full []string
	for _, d := range kinds.All() {
		if len(d.Versions) == 0 {
			continue
		}
		group, name := d.Group, d.Kind.Name()
		if strings.EqualFold(strings.TrimSuffix(name+"."+group, "."), text) {
			return string(d.Kind), nil
		}
		if strings.EqualFold(name, text) {
			found, full = append(found, string(d.Kind)), append(full, name+"."+group)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%q is no kind that the control plane reads; want one as VirtualService", text)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%q is of several groups; want %s", text, strings.Join(full, " or "))
}

// timeOf reads a duration before now, a time of today (or of yesterday, if it is yet to come), or a
// date and time.
func timeOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			year, month, day := now.Date()
			of := time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			if of.Sub(now) >= time.Minute { // a time that has no seconds is of the whole minute
				of = of.AddDate(0, 0, -1)
			}
			return of, nil
		}
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q: want a duration (1h), a time (14:02), or a date and time "+
		"(2026-11-30T14:02:00Z)", text)
}

// ask asks all replicas, or the one that a proxy is connected to. The newest come first.
func (f *historyFlags) ask(ctx context.Context, q page.HistoryQuestion) (*page.History, error) {
	endpoints, err := f.remote.Endpoints(ctx)
	if err != nil {
		return nil, err
	}
	if f.proxy != "" {
		at, proxy, err := proxyNamed(ctx, &f.remote, f.proxy)
		if err != nil {
			return nil, err
		}
		endpoints, q.Proxy = []remote.Endpoint{at}, proxy.ProxyID
	}
	pasts, errs := remote.EachOf(endpoints, func(e remote.Endpoint) (page.History, error) {
		return remote.Read[page.History](ctx, e, page.Past, q.Query())
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	all := page.History{Generations: []page.Generation{}}
	for i, p := range pasts {
		for _, g := range p.Generations {
			if len(endpoints) > 1 {
				g.Replica = endpoints[i].Name
			}
			all.Generations = append(all.Generations, g)
		}
		if p.Since.After(all.Since) { // from then on all know everything
			all.Since = p.Since
		}
		all.Connected, all.Missing = p.Connected, all.Missing || p.Missing
	}
	slices.SortStableFunc(all.Generations, func(a, b page.Generation) int { return b.At.Compare(a.At) })
	all.Generations = all.Generations[:min(len(all.Generations), q.Limit)]
	return &all, nil
}

func printHistory(out *terminal.Writer, past *page.History) {
	table := terminal.Table{Header: []string{"TIME", "CAUSE", "BY", "PROXIES", "TOOK", "REFUSED"}}
	for _, g := range past.Generations {
		proxies, took, refused := "0", "", ""
		switch d := g.Delivery; {
		case d != nil:
			proxies, took = strconv.Itoa(d.Proxies), secondsText(d.All)
			if d.Refused > 0 {
				refused = strconv.Itoa(d.Refused)
			}
		case len(g.Groups) > 0:
			proxies, took = "", "pending"
			if time.Since(g.At) > longestDelivery {
				took = "unknown"
			}
		}
		table.Row(g.At.Local().Format("Jan _2 15:04:05"), causesText(&g), managerOf(&g), proxies, took, refused)
		if g.Gap {
			table.Row("", gapText, "", "", "", "")
		}
	}
	if len(past.Generations) > 0 {
		out.Table(table)
	}
	printRemembered(out, past)
}

// longestDelivery is how long after it a change is called pending. Then its end was not remembered.
const longestDelivery = 10 * time.Minute

// gapText stands where changes are missing.
const gapText = "(changes before this are not remembered)"

// printRemembered says from when on something is known.
func printRemembered(out *terminal.Writer, past *page.History) {
	if past.Missing {
		out.Line("the last changes are not remembered: there were too many at once")
	}
	if len(past.Generations) == 0 {
		out.Line("nothing changed")
	}
	if !past.Since.IsZero() {
		out.Line("nothing is remembered of before %s", past.Since.Local().Format(time.DateTime))
	}
}

// secondsText shows how long something took; it is nothing if nobody waited for it.
func secondsText(s float64) string {
	if s == 0 {
		return "-"
	}
	return (time.Duration(s*1e6) * time.Microsecond).Round(100 * time.Microsecond).String()
}

// causesText names the first object, and how many more there are.
func causesText(g *page.Generation) string {
	switch {
	case g.Start:
		return "the control plane started"
	case len(g.Causes) == 0:
		return "-"
	}
	text := causeText(&g.Causes[0])
	if more := len(g.Causes) - 1 + g.MoreCauses; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

func causeText(c *page.Cause) string {
	name := c.Name
	if c.Namespace != "" {
		name = c.Namespace + "/" + name
	}
	return c.Kind + " " + name + " " + c.Verb
}

// managerOf is who wrote the first object, or where that stands.
func managerOf(g *page.Generation) string {
	if len(g.Causes) == 0 {
		return ""
	}
	return cmp.Or(g.Causes[0].Manager, g.Causes[0].Origin)
}

func printDetails(out *terminal.Writer, past *page.History) {
	for i := range past.Generations {
		printGeneration(out, &past.Generations[i])
		out.Line("")
	}
	printRemembered(out, past)
}

func printGeneration(out *terminal.Writer, g *page.Generation) {
	title := fmt.Sprintf("%s  generation %d", g.At.Local().Format(time.DateTime), g.Generation)
	if g.Replica != "" {
		title += " of " + g.Replica
	}
	out.Line("%s", out.Paint(terminal.Bold, title))
	if g.Start {
		out.Line("  the control plane started: what it read then is not told")
	}
	for i := range g.Causes {
		c := &g.Causes[i]
		out.Line("  %s%s", causeText(c), writtenText(c))
		printFields(out, "    ", c.Fields, c.MoreFields)
	}
	if g.MoreCauses > 0 {
		out.Line("  and %d more objects", g.MoreCauses)
	}
	for _, p := range g.Appeared {
		out.Paragraph("  ", terminal.Warn, "new: "+p)
	}
	for _, p := range g.Mended {
		out.Paragraph("  ", terminal.Good, "mended: "+p)
	}
	if g.Gap {
		out.Line("  %s", gapText)
	}
	printResources(out, g)
	if d := g.Delivery; d != nil {
		out.Line("  %s, %d bytes; half had it after %s, 90 %% after %s, all after %s%s", proxiesText(d.Proxies),
			d.Bytes, secondsText(d.Half), secondsText(d.Most), secondsText(d.All), failedText(d))
	}
}

// printResources prints what proxies got, each once.
func printResources(out *terminal.Writer, g *page.Generation) {
	type shown struct{ typ, name, verb string }
	known, more, unknown := map[shown]bool{}, 0, false
	for _, of := range g.Groups {
		more, unknown = max(more, of.MoreResources), unknown || of.Unknown
		for _, r := range of.Resources {
			if s := (shown{r.Type, r.Name, r.Verb}); !known[s] {
				known[s] = true
				out.Line("  → %s %s %s", r.Type, r.Name, r.Verb)
			}
		}
	}
	if more > 0 {
		out.Line("  → and %d more resources", more)
	}
	if unknown {
		out.Line("  → for some proxies too much to be remembered")
	}
	if n := len(g.Moved) + g.MoreMoved; n > 0 {
		out.Line("  → %s became of another class", proxiesText(n))
	}
}

func writtenText(c *page.Cause) string {
	switch {
	case c.Manager != "":
		return fmt.Sprintf(", by %s at %s", c.Manager, c.Written.Local().Format(time.TimeOnly))
	case c.Origin != "":
		return ", in " + c.Origin
	}
	return ""
}

func failedText(d *page.Delivery) (text string) {
	for _, of := range []struct {
		n    int
		what string
	}{{d.Refused, "refused something"}, {d.Left, "left before"}, {d.Waiting, "were not waited for"}} {
		if of.n > 0 {
			text += fmt.Sprintf("; %d %s", of.n, of.what)
		}
	}
	return text
}

// printFields prints fields that differ.
func printFields(out *terminal.Writer, indent string, list []page.FieldChange, more int) {
	for _, f := range list {
		switch {
		case f.Before == "":
			out.Line("%s%s", indent, out.Paint(terminal.Good, "+ "+f.Path+": "+f.After))
		case f.After == "":
			out.Line("%s%s", indent, out.Paint(terminal.Bad, "- "+f.Path+": "+f.Before))
		default:
			out.Line("%s~ %s: %s → %s", indent, f.Path, f.Before, f.After)
		}
	}
	if more > 0 {
		out.Line("%sand %d more fields", indent, more)
	}
}
