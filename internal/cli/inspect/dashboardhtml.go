package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/observe/htmlpage"
)

const (
	flagHTML  = "html"
	flagSince = "since"
	// mostSeries is how many lines a graph has at most.
	mostSeries = 20
)

func (o *dashboardOptions) bindPage(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.html, flagHTML, "", "write the graphs and the alerts into this file")
	cmd.Flags().DurationVar(&o.since, flagSince, 30*time.Minute, "with --html: how far back the graphs look")
	command.ValidateFlag(cmd.Flags(), flagSince, func() error {
		if o.since < time.Minute || o.since > 366*24*time.Hour {
			return errors.New("want from 1m to a year, as 1h30m")
		}
		return nil
	})
}

// writePage writes the dashboard as a page, and prints what to open.
func (o *dashboardOptions) writePage(ctx context.Context, out *terminal.Writer, d *dashboard) error {
	page, err := d.page(ctx, o.prometheus, stepsOf(time.Now(), o.since))
	if err != nil {
		return err
	}
	content, err := page.HTML()
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.html, content, 0o644); err != nil {
		return fmt.Errorf("--%s: %w; want a file in a directory that is there and may be written", flagHTML, err)
	}
	path, err := filepath.Abs(o.html)
	if err != nil {
		return err
	}
	out.Line("%s", (&url.URL{Scheme: "file", Path: path}).String())
	return nil
}

// page returns what a Prometheus has of the alerts and of each panel.
func (d *dashboard) page(ctx context.Context, prometheus string, at steps) (htmlpage.Page, error) {
	page := htmlpage.Page{Title: d.Title}
	alerts, err := alertsOf(ctx, prometheus)
	if err != nil {
		return page, err
	}
	page.Sections = []htmlpage.Section{alerts}
	labels := at.labels()
	for _, row := range d.Rows {
		section := htmlpage.Section{Title: row.Row, Lines: []string{row.Advice}}
		for _, panel := range row.Panels {
			chart := htmlpage.Chart{Title: panel.Panel, Unit: unitOf(panel.unit), Line: true, Categories: labels}
			if chart.Series, err = panel.series(ctx, prometheus, at); err != nil {
				return page, err
			}
			if len(chart.Series) == 0 {
				section.Lines = append(section.Lines, panel.Panel+": no data")
				continue
			}
			if more := len(chart.Series) - mostSeries; more > 0 {
				section.Lines = append(section.Lines, fmt.Sprintf("%s: without the %d lowest lines", panel.Panel, more))
				chart.Series = chart.Series[:mostSeries]
			}
			section.Charts = append(section.Charts, chart)
		}
		page.Sections = append(page.Sections, section)
	}
	return page, nil
}

// series returns the lines of a panel, the highest first.
func (p *dashboardPanel) series(ctx context.Context, prometheus string, at steps) ([]htmlpage.Series, error) {
	var out []htmlpage.Series
	for i, query := range p.Queries {
		found, err := at.query(ctx, prometheus, query)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			line := htmlpage.Series{Name: legendOf(p.legends[i], s.Metric), Values: at.values(s)}
			if slices.ContainsFunc(line.Values, func(v *float64) bool { return v != nil }) {
				out = append(out, line)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b htmlpage.Series) int { return cmp.Compare(highest(b), highest(a)) })
	return out, nil
}

func highest(s htmlpage.Series) (most float64) {
	for _, v := range s.Values {
		if v != nil {
			most = max(most, *v)
		}
	}
	return most
}

var legendLabel = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// legendOf fills in the labels of a series.
func legendOf(template string, labels map[string]string) string {
	return legendLabel.ReplaceAllStringFunc(template, func(label string) string {
		return labels[legendLabel.FindStringSubmatch(label)[1]]
	})
}

// unitOf returns what stands at an axis for a unit of Grafana's.
func unitOf(grafana string) string {
	switch grafana {
	case "ops":
		return "per second"
	case "Bps":
		return "bytes/s"
	case "percentunit":
		return "1 = 100 %"
	case "short":
		return ""
	}
	return grafana
}

// alertsOf returns a table of what may fire.
func alertsOf(ctx context.Context, prometheus string) (htmlpage.Section, error) {
	section := htmlpage.Section{Title: "Alerts"}
	var data struct {
		Groups []struct {
			Rules []struct {
				Name, State string
				Labels      map[string]string
				Annotations map[string]string
				Alerts      []struct {
					ActiveAt    time.Time
					Annotations map[string]string
				}
			}
		}
	}
	if err := prometheusData(ctx, prometheus, "rules", url.Values{"type": {"alert"}}, &data); err != nil {
		return section, err
	}
	table := htmlpage.Table{Header: []string{"alert", "severity", "state", "since", "what holds", "what to do"}}
	for _, group := range data.Groups {
		for _, rule := range group.Rules {
			row := []string{rule.Name, rule.Labels["severity"], rule.State, "", "", rule.Annotations["description"]}
			if len(rule.Alerts) > 0 {
				first := rule.Alerts[0]
				row[3], row[4] = first.ActiveAt.Local().Format(time.DateTime), first.Annotations["summary"]
			}
			table.Rows = append(table.Rows, row)
		}
	}
	if len(table.Rows) == 0 {
		section.Lines = []string{"This Prometheus has no rules for alerts."}
		return section, nil
	}
	section.Tables = []htmlpage.Table{table}
	return section, nil
}
