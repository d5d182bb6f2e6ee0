package perf

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lateen-mesh/lateen/internal/terminal"
)

// Table has a row for each sickness: medians of times, the most of sizes.
func (r PressureReport) Table() terminal.Table {
	t := terminal.Table{Header: []string{"BESIDE", "P50", "WITH", "P99", "WITH", "RATIO", "QUEUED", "KERNEL", "MEMORY", "WITH", "CPU", "WITH"}}
	for i := range r.Rows {
		p := &r.Rows[i]
		p50, p99 := func(h *Half) Seconds { return h.Latency.P50 }, func(h *Half) Seconds { return h.Latency.P99 }
		peak, cpu := func(h *Half) int64 { return h.Peak }, func(h *Half) Seconds { return h.CPU }
		t.Row(string(p.Sickness),
			short(time.Duration(middle(p.Without, p50))), short(time.Duration(middle(p.With, p50))),
			short(time.Duration(middle(p.Without, p99))), short(time.Duration(middle(p.With, p99))), fmt.Sprintf("%.2f", median(p.Ratios)),
			size(most(p.With, func(h *Half) int64 { return h.Queued })), size(most(p.With, func(h *Half) int64 { return h.Kernel })),
			size(most(p.Without, peak)), size(most(p.With, peak)),
			short(time.Duration(middle(p.Without, cpu))), short(time.Duration(middle(p.With, cpu))))
	}
	return t
}

func most(of []Half, number func(h *Half) int64) (n int64) {
	for i := range of {
		n = max(n, number(&of[i]))
	}
	return n
}

// Title is what was measured, in a few lines.
func (r PressureReport) Title() string {
	return Report{Command: r.Command, ControlPlane: r.ControlPlane, Machine: r.Machine, Mesh: r.Mesh}.Title()
}

// Notes are what a reader should know of the numbers.
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
		fmt.Sprintf("Times are of changes to sidecars that are well: medians of %d %s, in turn alone and WITH what the row says. RATIO is of P99, the median of the pairs'.",
			cmp.Or(runs, 1), pairs),
		"QUEUED waits in the control plane when all changes have arrived, so for those that are sick together; KERNEL in the kernel, for one. The most of all runs.",
	}
}
