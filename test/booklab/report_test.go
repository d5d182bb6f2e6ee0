package booklab

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// istiod is what istiod of August 2026 (about 1.31, default settings) measured in the same lab on a
// machine of this kind: 2 vCPU, 24 GiB, plaintext delta xDS, the same proxies. One run.
var istiod = map[string]map[string]string{
	"i": {
		pushesRow:      "530 (130 / 140 / 130 / 130)",
		convergenceRow: "0.050 / 0.099 s",
		lastRow:        "145 / 166 ms",
		bytesRow:       "23.0 MB",
		configRow:      "421 KB", cpuRow: "0.50 s", memoryRow: "167 MB",
	},
	"ii": {
		pushesRow:      "80 (20 / 20 / 20 / 20)",
		convergenceRow: "0.050 / 0.099 s",
		lastRow:        "129 / 147 ms",
		bytesRow:       "5.0 MB",
		configRow:      "25 KB", cpuRow: "0.19 s", memoryRow: "138 MB",
	},
	"iii": {
		pushesRow:      "24 (6 / 6 / 6 / 6)",
		convergenceRow: "0.050 / 0.099 s",
		lastRow:        "7520 / 12518 ms",
		bytesRow:       "1.2 MB",
		configRow:      "25 KB", cpuRow: "0.10 s", memoryRow: "132 MB",
	},
}

// The table's rows.
const (
	pushesRow      = "pushes (CDS / EDS / LDS / RDS and VHDS)"
	convergenceRow = "`pilot_proxy_convergence_time` p50 / p99"
	lastRow        = "from the write to the last proxy, median / max"
	bytesRow       = "bytes to all proxies"
	configRow      = "configuration of a sidecar, before"
	cpuRow         = "CPU of the control plane"
	memoryRow      = "resident memory"
)

func rows() []string {
	return []string{pushesRow, convergenceRow, lastRow, bytesRow, configRow, cpuRow, memoryRow}
}

// cells are one run's.
func (r result) cells() map[string]string {
	ordered := slices.Sorted(slices.Values(r.last))
	median := (ordered[(len(ordered)-1)/2] + ordered[len(ordered)/2]) / 2
	all := 0
	for _, n := range r.pushes {
		all += n
	}
	return map[string]string{
		pushesRow: fmt.Sprintf("%d (%d / %d / %d / %d)", all, r.pushes["cds"], r.pushes["eds"], r.pushes["lds"],
			r.pushes["rds"]+r.pushes["vhds"]),
		convergenceRow: fmt.Sprintf("%.3f / %.3f s", r.p50, r.p99),
		lastRow:        fmt.Sprintf("%d / %d ms", median/time.Millisecond, ordered[len(ordered)-1]/time.Millisecond),
		bytesRow:       megabytes(r.bytes),
		configRow:      fmt.Sprintf("%d KB", (r.config+500)/1000),
		cpuRow:         fmt.Sprintf("%.2f s", r.cpu.Seconds()),
		memoryRow:      fmt.Sprintf("%d MB", (r.memory+500_000)/1_000_000),
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%.2f MB", float64(n)/1e6) }

// write makes docs/book-lab.md.
func write(t *testing.T, all []result) {
	var b strings.Builder
	b.WriteString(introduction)
	line := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	head, rule := []string{"for the ten changes"}, []string{"---"}
	for _, r := range all {
		head = append(head, r.setting.name+": istiod", "Lateen")
		rule = append(rule, "---", "---")
	}
	line(head...)
	line(rule...)
	for _, row := range rows() {
		cells := []string{row}
		for _, r := range all {
			cells = append(cells, istiod[r.setting.id][row], r.cells()[row])
		}
		line(cells...)
	}
	fmt.Fprintf(&b, conclusion, 100*float64(all[0].bytes)/istiodBytes)
	require.NoError(t, os.WriteFile("../../docs/book-lab.md", []byte(b.String()), 0o644))
}

const introduction = `# The book lab

Chapter 11 of "Istio in Action" measures istiod: 12 sidecars (a catalog, a web application, ten idle
workloads) and one gateway; 200 Services with a Gateway and a VirtualService each; then ten more of
these, one every 2.5 seconds. First as is; then with a Sidecar for the whole mesh that lets
everybody see the control plane and the monitoring alone; then with a debounce of 2.5 seconds
besides (PILOT_DEBOUNCE_AFTER). test/booklab does the same with a real API server, "lateen serve" as
a process, and proxies that are xDS clients without a data path. "make book-lab" writes this page;
istiod's figures are from one run in the same lab on a machine of the same kind (2 vCPU).

`

const conclusion = `
A sidecar behind the mesh-wide Sidecar gets nothing at all for the ten changes: the test counts
that. As is, each sidecar gets each new cluster once, its endpoints, its virtual host, and no
listener.

As is, Lateen sends %.2f %% of istiod's bytes: no list of anything is sent again for what is new in
it ([decision 019](decisions/019-virtual-hosts-on-their-own.md)).

The time to the last proxy contains the debounce, the convergence time does not. istiod waits for
100 ms of quiet. Lateen does not for a first change after a calm, and for 20 ms for what follows it
without a pause ([decision 018](decisions/018-early-batches.md)): here it is the last of three
objects that counts.
`
