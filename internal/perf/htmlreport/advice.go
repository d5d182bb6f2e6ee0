package htmlreport

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/observe/htmlpage"
)

// adviceSections has a section for each time that lateen advise was asked.
func adviceSections(all []advise.Report) (out []htmlpage.Section) {
	for _, r := range all {
		s := htmlpage.Section{Title: "Advice of " + r.Time.Format("2006-01-02 15:04 MST")}
		s.Lines = append(s.Lines, fmt.Sprintf("bottleneck: %s (%s)", r.Bottleneck.Factor, r.Bottleneck.Why))
		s.Lines = append(s.Lines, r.Notes...)
		signals := htmlpage.Table{Header: []string{"signal", "state", "metric", "value", "threshold"}}
		for _, x := range r.Signals {
			for _, e := range x.Evidence {
				signals.Rows = append(signals.Rows, append([]string{string(x.Signal), string(x.State)}, evidence(e)...))
			}
		}
		found := htmlpage.Table{Header: []string{"rule", "finding", "expected effect", "remedy"}}
		for _, f := range r.Findings {
			found.Rows = append(found.Rows, []string{f.Rule, f.Summary, effects(f.Effects), remedy(f.Remedy)})
		}
		if len(r.Findings) == 0 {
			s.Lines = append(s.Lines, "nothing to advise")
		}
		s.Tables = []htmlpage.Table{signals, found}
		out = append(out, s)
	}
	return out
}

func evidence(e advise.Evidence) []string {
	threshold := ""
	if e.Off || e.Threshold != 0 {
		threshold = amount(e.Threshold, e.Unit)
	}
	return []string{e.Metric, amount(e.Value, e.Unit), threshold}
}

func effects(all []advise.Effect) string {
	var texts []string
	for _, e := range all {
		texts = append(texts, fmt.Sprintf("%s: %s -> %s", e.What, amount(e.Before, e.Unit), amount(e.After, e.Unit)))
	}
	return strings.Join(texts, "; ")
}

// remedy is the thing to apply, or what else to do.
func remedy(r advise.Remedy) string {
	var texts []string
	for _, all := range []map[string]string{r.Variables, r.Values} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			texts = append(texts, name+"="+all[name])
		}
	}
	if len(r.ExcludeNamespaces) > 0 {
		texts = append(texts, "meshConfig.discoverySelectors without "+strings.Join(r.ExcludeNamespaces, ", "))
	}
	for _, text := range []string{r.Manifests, r.Text, r.ByHand} {
		if text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

func amount(v float64, unit string) string { return strings.TrimSpace(fmt.Sprintf("%.4g %s", v, unit)) }
