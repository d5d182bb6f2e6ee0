package perf

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// CapacityTable has the columns of Azure's published tables.
func (r Report) CapacityTable() terminal.Table {
	t := terminal.Table{Prose: terminal.LastColumn, Header: []string{
		"CHURN %", "CHURN RATE", "SERVICES", "SIDECARS", "MEMORY", "CPU", "P99", "",
	}}
	for _, c := range r.Capacity {
		rate := "--"
		if c.Rate > 0 {
			rate = fmt.Sprintf("%.1f/s", c.Rate)
		}
		verdict := terminal.Cell{Text: c.Why, Style: terminal.Warn}
		t.Rows = append(t.Rows, []terminal.Cell{
			{Text: strconv.Itoa(c.Churn)}, {Text: rate}, {
				Text: formatCount(int64(c.Services)),
			}, {Text: formatCount(int64(c.Sidecars))}, {Text: formatBytes(c.Memory)},
			{Text: fmt.Sprintf("%.2f", c.Cores)}, {Text: formatDuration(time.Duration(c.P99))}, verdict,
		})
	}
	return t
}

// tableRow is a row of the table of phases: its name, and how it shows a phase ("" if there is
// nothing to show).
type tableRow struct {
	name string
	of   func(p *Phase) string
}

func rows() []tableRow {
	return append(timeRows(), costRows()...)
}

func timeRows() []tableRow {
	latency, last := times(
		func(p *Phase) *measure.Summary { return p.Latency },
	), times(func(p *Phase) *measure.Summary { return p.Last })
	removal, lastRemoval := times(func(p *Phase) *measure.Summary { return p.Removal }), times(
		func(p *Phase) *measure.Summary { return p.LastRemoval },
	)
	ready := times(func(p *Phase) *measure.Summary { return p.Ready })
	return []tableRow{
		{"sidecars", func(p *Phase) string { return positive(int64(p.Sidecars), formatCount) }},
		{"changes", func(p *Phase) string { return positive(int64(p.Changes), formatCount) }},
		{"time", func(p *Phase) string { return formatDuration(time.Duration(p.Time)) }},
		{"change to sidecar, p50", latency.p50},
		{"  p99", latency.p99},
		{"  p99.9", latency.p999},
		{"change to last sidecar, median", last.p50},
		{"  p99", last.p99},
		{"  max", last.max},
		{"removal to sidecar, p50", removal.p50},
		{"  p99", removal.p99},
		{"removal to last sidecar, p99", lastRemoval.p99},
		{"  max", lastRemoval.max},
		{"sidecar in sync after, p50", ready.p50},
		{"  p99", ready.p99},
		{"sidecars a second", func(p *Phase) string {
			if p.Rate == 0 {
				return ""
			}
			return fmt.Sprintf("%.1f", p.Rate)
		}},
	}
}

func costRows() []tableRow {
	return []tableRow{
		{"CPU seconds", func(p *Phase) string { return fmt.Sprintf("%.2f", time.Duration(p.CPU).Seconds()) }},
		{"  a change", perChange(
			func(p *Phase) float64 { return float64(p.CPU) },
			func(n float64) string { return formatDuration(time.Duration(n)) },
		)},
		{"  a sidecar and change", perPush(
			func(p *Phase) float64 { return float64(p.CPU) },
			func(n float64) string { return formatDuration(time.Duration(n)) },
		)},
		{"  for garbage collection", func(p *Phase) string {
			if p.GCTime == 0 || p.CPU == 0 {
				return ""
			}
			return fmt.Sprintf("%.1f %%", 100*float64(p.GCTime)/float64(p.CPU))
		}},
		{"CPU, cores", func(p *Phase) string { return fmt.Sprintf("%.2f", p.Cores()) }},
		{"CPU seconds of load and sidecars", func(p *Phase) string {
			return fmt.Sprintf(
				"%.2f", time.Duration(p.LoadCPU).Seconds(),
			)
		}},
		{"bytes to sidecars", func(p *Phase) string { return positive(p.Received, formatBytes) }},
		{"  a change", perChange(func(p *Phase) float64 { return float64(p.Received) }, formatMeanBytes)},
		{"  a sidecar and change", perPush(func(p *Phase) float64 { return float64(p.Received) }, formatMeanBytes)},
		{"bytes from sidecars", func(p *Phase) string { return positive(p.Sent, formatBytes) }},
		{"responses", func(p *Phase) string { return positive(p.Responses, formatCount) }},
		{"  refused", func(p *Phase) string { return positive(p.Refused, formatCount) }},
		{"streams refused", func(p *Phase) string { return positive(p.RefusedStreams, formatCount) }},
		{"connections broken", func(p *Phase) string { return positive(p.BrokenConnections, formatCount) }},
		{"allocated", func(p *Phase) string { return positive(int64(p.Allocated), formatBytes) }},
		{"  a sidecar and change", perPush(func(p *Phase) float64 { return float64(p.Allocated) }, formatMeanBytes)},
		{"memory", func(p *Phase) string { return positive(p.Resident, formatBytes) }},
		{"  peak so far", func(p *Phase) string { return positive(p.Peak, formatBytes) }},
		{"memory of load and sidecars", func(p *Phase) string { return positive(p.LoadResident, formatBytes) }},
		{"kernel's TCP memory, both ends", func(p *Phase) string { return positive(p.Sockets, formatBytes) }},
		{"  peak", func(p *Phase) string { return positive(p.PeakSockets, formatBytes) }},
	}
}

// PhaseTable has a column for each phase, and a row for each number that any phase has.
func (r Report) PhaseTable() terminal.Table {
	t := terminal.Table{Header: []string{""}}
	for _, p := range r.Phases {
		t.Header = append(t.Header, p.Name)
	}
	for _, m := range rows() {
		row, any := []string{m.name}, false
		for i := range r.Phases {
			text := m.of(&r.Phases[i])
			any = any || text != ""
			row = append(row, cmp.Or(text, "-"))
		}
		if any {
			t.Row(row...)
		}
	}
	return t
}

// times selects one of the distributions of a phase.
type times func(p *Phase) *measure.Summary

func (t times) p50(p *Phase) string {
	return t.show(p, func(s *measure.Summary) Seconds { return s.P50 })
}
func (t times) p99(p *Phase) string {
	return t.show(p, func(s *measure.Summary) Seconds { return s.P99 })
}
func (t times) p999(p *Phase) string {
	return t.show(p, func(s *measure.Summary) Seconds { return s.P999 })
}
func (t times) max(p *Phase) string {
	return t.show(p, func(s *measure.Summary) Seconds { return s.Max })
}

func (t times) show(p *Phase, what func(*measure.Summary) Seconds) string {
	if s := t(p); s != nil {
		return formatDuration(time.Duration(what(s)))
	}
	return ""
}

func perChange(of func(p *Phase) float64, show func(float64) string) func(p *Phase) string {
	return func(p *Phase) string {
		if p.Changes == 0 {
			return ""
		}
		return show(of(p) / float64(p.Changes))
	}
}

// perPush divides by the number of pairs of a change and a sidecar that it reached.
func perPush(of func(p *Phase) float64, show func(float64) string) func(p *Phase) string {
	return func(p *Phase) string {
		if p.Latency == nil || p.Latency.Count == 0 || of(p) == 0 {
			return ""
		}
		return show(of(p) / float64(p.Latency.Count))
	}
}

func positive(n int64, show func(int64) string) string {
	if n <= 0 {
		return ""
	}
	return show(n)
}

// formatCount separates thousands by commas.
func formatCount(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func formatMeanBytes(n float64) string { return formatBytes(int64(n)) }

// formatBytes formats a number of bytes in decimal units.
func formatBytes(n int64) string {
	switch f := float64(n); {
	case f >= 1e9:
		return fmt.Sprintf("%.2f GB", f/1e9)
	case f >= 1e6:
		return fmt.Sprintf("%.1f MB", f/1e6)
	case f >= 1e4:
		return fmt.Sprintf("%.1f kB", f/1e3)
	}
	return formatCount(n) + " B"
}

// formatDuration formats a time with three digits.
func formatDuration(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%d µs", d.Microseconds())
}
