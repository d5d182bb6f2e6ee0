package advise

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Metrics returns a report in Prometheus's text format: a signal that is unknown has no series, and
// each rule has one, 0 without advice, so that an alert can see it come and go.
func (r Report) Metrics() string {
	var b strings.Builder
	family := func(name, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s gauge\n", name, help) }
	family("lateen_advice_time_seconds", "When lateen advise looked, in seconds since 1970.")
	fmt.Fprintf(&b, "lateen_advice_time_seconds %d\n", r.Time.Unix())
	family("lateen_advice_signal_off", "Whether a golden signal is off.")
	for _, s := range r.Signals {
		if s.State != Unknown {
			name := labelValue(string(s.Signal))
			fmt.Fprintf(&b, "lateen_advice_signal_off{signal=%s} %d\n", name, ones(s.State == Off))
		}
	}
	family("lateen_advice_findings", "Pieces of advice, by rule.")
	for _, rule := range rules() {
		n := 0
		for _, f := range r.Findings {
			n += ones(f.Rule == rule.id)
		}
		fmt.Fprintf(&b, "lateen_advice_findings{rule=%s,signal=%s,lever=%s} %d\n", labelValue(rule.id),
			labelValue(string(rule.signal)), labelValue(rule.lever), n)
	}
	family("lateen_advice_effect", "What the model expects of an advice, before and after it is applied.")
	for _, line := range r.effectLines() {
		b.WriteString(line)
	}
	return b.String()
}

// effectLines are the series of all effects, the first one of two that have the same labels.
func (r Report) effectLines() (lines []string) {
	var seen []string
	for _, f := range r.Findings {
		for _, e := range f.Effects {
			labels := fmt.Sprintf("rule=%s,what=%s,unit=%s", labelValue(f.Rule), labelValue(e.What), labelValue(e.Unit))
			if slices.Contains(seen, labels) {
				continue
			}
			seen = append(seen, labels)
			for _, at := range []struct {
				when  string
				value float64
			}{{"before", e.Before}, {"after", e.After}} {
				lines = append(lines, fmt.Sprintf("lateen_advice_effect{%s,when=%q} %s\n", labels, at.when,
					strconv.FormatFloat(at.value, 'g', -1, 64)))
			}
		}
	}
	return lines
}

func ones(b bool) int {
	if b {
		return 1
	}
	return 0
}

// labelValue quotes as the text format does: backslashes, quotes and line breaks alone are escaped.
func labelValue(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
