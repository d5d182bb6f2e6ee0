package inspect

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/charts"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// dashboardNames returns the dashboards of the chart, sorted.
func dashboardNames() (names []string) {
	files, _ := fs.Glob(charts.FS, charts.DashboardDir+"/*.json") // the pattern is right
	for _, f := range files {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(f, charts.DashboardDir+"/"), ".json"))
	}
	return names
}

// dashboardRow is a row of panels.
type dashboardRow struct {
	Row    string           `json:"row"`
	Advice string           `json:"advice"`
	URL    string           `json:"url"` // Prometheus' graphs of the queries
	Panels []dashboardPanel `json:"panels"`
}

type dashboardPanel struct {
	Panel   string   `json:"panel"`
	Queries []string `json:"queries"`

	unit    string   // Grafana's name for it
	legends []string // of the queries, with {{label}} for the value of a label
}

// dashboard is one of the chart's, read from Grafana's JSON.
type dashboard struct {
	Title string         `json:"title"`
	Rows  []dashboardRow `json:"rows"`

	grafana []byte
}

// readDashboard reads one. Where a reader of Grafana may choose a namespace, it has all.
func readDashboard(name string) (*dashboard, error) {
	text, err := charts.FS.ReadFile(charts.DashboardDir + "/" + name + ".json")
	if err != nil {
		return nil, err
	}
	var file struct {
		Title  string
		Panels []struct {
			Type, Title string
			Options     struct{ Content string }
			Targets     []struct{ Expr, LegendFormat string }
			FieldConfig struct{ Defaults struct{ Unit string } }
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("dashboard %s: %w", name, err)
	}
	d := &dashboard{Title: file.Title, grafana: text}
	for _, p := range file.Panels {
		if p.Type == "row" {
			d.Rows = append(d.Rows, dashboardRow{Row: p.Title})
			continue
		}
		if len(d.Rows) == 0 {
			return nil, fmt.Errorf("dashboard %s: panel %q stands in no row", name, p.Title)
		}
		row := &d.Rows[len(d.Rows)-1]
		if p.Type == "text" {
			row.Advice = p.Options.Content
			continue
		}
		panel := dashboardPanel{Panel: p.Title, unit: p.FieldConfig.Defaults.Unit}
		for _, t := range p.Targets {
			panel.Queries = append(panel.Queries, strings.ReplaceAll(t.Expr, "$namespace", ".*"))
			panel.legends = append(panel.legends, t.LegendFormat)
		}
		row.Panels = append(row.Panels, panel)
	}
	return d, nil
}

// summary returns the names of the rows.
func (d *dashboard) summary() string {
	var rows []string
	for _, r := range d.Rows {
		rows = append(rows, r.Row)
	}
	return strings.Join(rows, "; ")
}

// link sets the URLs of all rows: Prometheus draws one graph for each query.
func (d *dashboard) link(prometheus string) {
	for i := range d.Rows {
		query, n := url.Values{}, 0
		for _, p := range d.Rows[i].Panels {
			for _, q := range p.Queries {
				query.Set(fmt.Sprintf("g%d.expr", n), q)
				query.Set(fmt.Sprintf("g%d.tab", n), "graph")
				query.Set(fmt.Sprintf("g%d.range_input", n), "30m")
				n++
			}
		}
		d.Rows[i].URL = prometheus + "/query?" + query.Encode()
	}
}

// dashboardOf returns the command that shows one dashboard.
func dashboardOf(out *terminal.Writer, r remote.Remote, name string) *cobra.Command {
	o := &dashboardOptions{Remote: r}
	cmd := &cobra.Command{
		Use:   name,
		Short: "A dashboard: its rows, what to do, and Prometheus' graphs of each row",
		Long: `Prints the rows of the dashboard: what to do when something is wrong there, and a link to
Prometheus' graphs of all queries of the row. --html writes the graphs and the alerts into one file
instead, for a Prometheus without pages of its own and for reports: it is what Prometheus has now,
and fetches nothing when it is opened. --grafana prints the dashboard as Grafana imports it.`,
		Example: "  lateen dashboard " + name + "\n  lateen dashboard " + name + " --html " + name +
			".html --since 1h\n  lateen dashboard " + name + " --grafana > " + name + ".json",
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := readDashboard(name)
			if err != nil {
				return err
			}
			if o.grafana {
				_, err := cmd.OutOrStdout().Write(d.grafana)
				return err
			}
			if o.html != "" {
				return o.writePage(cmd.Context(), out, d)
			}
			d.link(o.prometheus)
			if o.output != "table" {
				return command.PrintAs(cmd.OutOrStdout(), o.output, d)
			}
			links := hasPages(cmd.Context(), o.prometheus)
			d.print(out, links)
			if !links {
				out.Line("")
				out.Paragraph("", terminal.Plain, o.prometheus+" has no pages; lateen dashboard "+name+
					" --html "+name+".html draws the graphs.")
			}
			return nil
		},
	}
	o.bindPrometheus(cmd)
	cmd.Flags().BoolVar(&o.grafana, "grafana", false, "print Grafana's JSON")
	o.bindPage(cmd)
	command.BindOutput(cmd, &o.output)
	cmd.MarkFlagsMutuallyExclusive("grafana", "output", flagHTML)
	return cmd
}

// print prints the rows, with links if Prometheus has pages.
func (d *dashboard) print(out *terminal.Writer, links bool) {
	out.Line("%s", out.Paint(terminal.Bold, d.Title))
	for _, r := range d.Rows {
		out.Line("")
		out.Paragraph("", terminal.Plain, r.Row+": "+r.Advice)
		if links {
			out.Line("%s", r.URL)
		}
	}
}
