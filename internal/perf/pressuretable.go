package perf

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// Table has a row for each disturbance, with medians of times and maxima of sizes.
func (r PressureReport) Table() terminal.Table {
	t := terminal.Table{Header: []string{
		"BESIDE", "P50", "WITH", "P99", "WITH", "RATIO", "QUEUED", "KERNEL", "MEMORY", "WITH", "CPU", "WITH",
	}}
	for i := range r.Rows {
		p := &r.Rows[i]
		p50 := func(h *PressureRun) Seconds { return h.Latency.P50 }
		p99 := func(h *PressureRun) Seconds { return h.Latency.P99 }
		peak, cpu := func(h *PressureRun) int64 { return h.Peak }, func(h *PressureRun) Seconds { return h.CPU }
		t.Row(string(p.Disturbance),
			formatDuration(time.Duration(medianOf(p.Without, p50))), formatDuration(
				time.Duration(medianOf(p.With, p50)),
			),
			formatDuration(time.Duration(medianOf(p.Without, p99))), formatDuration(
				time.Duration(medianOf(p.With, p99)),
			), fmt.Sprintf("%.2f", p.Ratio()),
			formatBytes(most(p.With, func(h *PressureRun) int64 { return h.Queued })), formatBytes(
				most(p.With, func(h *PressureRun) int64 { return h.Kernel }),
			),
			formatBytes(most(p.Without, peak)), formatBytes(most(p.With, peak)),
			formatDuration(time.Duration(medianOf(p.Without, cpu))), formatDuration(
				time.Duration(medianOf(p.With, cpu)),
			))
	}
	return t
}

func most(of []PressureRun, number func(h *PressureRun) int64) (n int64) {
	for i := range of {
		n = max(n, number(&of[i]))
	}
	return n
}

// Title says in a few lines what was measured.
func (r PressureReport) Title() string {
	return Report{Command: r.Command, ControlPlane: r.ControlPlane, Machine: r.Machine, Mesh: r.Mesh}.Title()
}

// Notes say what a reader should know about the numbers.
func (r PressureReport) Notes() []string {
	runs := 0
	for _, p := range r.Rows {
		runs = max(runs, len(p.Ratios))
	}
	pairs := "pairs of runs"
	if runs <= 1 {
		pairs = "pair of runs"
	}
	return []string{
		fmt.Sprintf(
			"Times are of changes to sidecars that are well: medians of %d %s, in turn alone and WITH what the "+
				"row says. RATIO is of P99, the median of the pairs'.",
			cmp.Or(runs, 1),
			pairs,
		),
		"QUEUED waits in the control plane when all changes have arrived, so for all that misbehave together; " +
			"KERNEL in the kernel, for one. The most of all runs.",
	}
}
