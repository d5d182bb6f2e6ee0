package inspect

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/observe/advise"
)

// mostManifestLines bounds how much of a manifest is printed; -o json has all.
const mostManifestLines = 40

func printFinding(out *terminal.Writer, found advise.Finding) {
	for _, e := range found.Evidence {
		text := e.Metric + " is " + formatNumber(e.Value, e.Unit)
		if e.Off {
			text += ", threshold " + formatNumber(e.Threshold, e.Unit)
		}
		out.Paragraph("   because ", terminal.Plain, text)
	}
	for _, e := range found.Effects {
		out.Paragraph("   expect ", terminal.Plain, fmt.Sprintf("%s: %s -> %s", e.What, formatNumber(e.Before, e.Unit),
			formatNumber(e.After, e.Unit)))
	}
	r := found.Remedy
	for _, name := range slices.Sorted(maps.Keys(r.Variables)) {
		out.Paragraph("   set ", terminal.Good, name+"="+r.Variables[name])
	}
	for _, path := range slices.Sorted(maps.Keys(r.Values)) {
		out.Paragraph("   set ", terminal.Good, "--set "+path+"="+r.Values[path]+" (lateen upgrade)")
	}
	if len(r.ExcludeNamespaces) > 0 {
		out.Paragraph("   set ", terminal.Good, "meshConfig.discoverySelectors:")
		printIndented(out, selectorsText(r.ExcludeNamespaces))
	}
	if r.Manifests != "" {
		out.Paragraph("   apply ", terminal.Good, "")
		printIndented(out, r.Manifests)
	}
	if r.Text != "" {
		out.Paragraph("   note ", terminal.Faint, r.Text)
	}
	switch {
	case r.ByHand != "":
		out.Paragraph("   by hand: ", terminal.Warn, r.ByHand)
	case r.Automatic:
		out.Line("   --apply does this")
	}
}

func printIndented(out *terminal.Writer, text string) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		if i == mostManifestLines {
			out.Line("     … %d more lines (-o yaml has all)", len(lines)-i)
			return
		}
		out.Line("     %s", line)
	}
}

// formatNumber writes a number with its unit, to three digits.
func formatNumber(v float64, unit string) string {
	text := ""
	switch {
	case unit == "B" || unit == "B/s":
		return terminal.Bytes(int64(math.Round(v))) + strings.TrimPrefix(unit, "B")
	case math.Abs(v) >= 100 || v == math.Trunc(v):
		text = fmt.Sprintf("%.0f", v)
	default:
		text = fmt.Sprintf("%.3g", v)
	}
	if unit == "" || unit == "s" || unit == "%" || strings.HasPrefix(unit, "/") {
		return text + unit
	}
	return text + " " + unit
}
