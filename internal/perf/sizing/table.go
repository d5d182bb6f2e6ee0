package sizing

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Row is a line of the table of estimates: a name, and a value for each estimate.
type Row struct {
	Name   string
	Values []string
}

// Rows returns the lines of a table with a column for each estimate. Units are decimal.
func Rows(all []Estimate) []Row {
	var rows []Row
	for _, line := range []struct {
		name string
		of   func(e Estimate) string
	}{
		{"sidecars", func(e Estimate) string { return formatCount(e.Mesh.Sidecars) }},
		{
			"services, pods",
			func(e Estimate) string { return formatCount(e.Mesh.Services) + ", " + formatCount(e.Mesh.Pods) },
		},
		{"changes a second", func(e Estimate) string { return fmt.Sprintf("%g %s", e.Mesh.Changes, e.Mesh.Kind) }},
		{"replicas", func(e Estimate) string { return formatCount(e.Replicas) }},
		{"  decided by", func(e Estimate) string { return e.LimitingFactor }},
		{"a replica: sidecars", func(e Estimate) string { return formatCount(e.Replica.Sidecars) }},
		{"  memory of the mesh", func(e Estimate) string { return formatBytes(e.Replica.MeshBytes) }},
		{"  memory of its sidecars", func(e Estimate) string { return formatBytes(e.Replica.SidecarsBytes) }},
		{"  memory with headroom", func(e Estimate) string { return formatBytes(e.Replica.MemoryBytes) }},
		{"  cores that changes take", func(e Estimate) string { return fmt.Sprintf("%.2f", e.Replica.Cores) }},
		{"  network to sidecars", func(e Estimate) string { return formatBytes(e.Replica.Sent) + "/s" }},
		{"  network from sidecars", func(e Estimate) string { return formatBytes(e.Replica.Received) + "/s" }},
		{"  a change to the last sidecar", func(e Estimate) string { return formatDuration(e.Replica.LastSidecar) }},
		{"  all sidecars connect in", func(e Estimate) string { return formatDuration(e.Replica.Connect) }},
		{"all: memory", func(e Estimate) string { return formatBytes(e.Total.MemoryBytes) }},
		{"  cores that changes take", func(e Estimate) string { return fmt.Sprintf("%.2f", e.Total.Cores) }},
		{"  network to sidecars", func(e Estimate) string { return formatBytes(e.Total.Sent) + "/s" }},
		{"  sent when all connect", func(e Estimate) string { return formatBytes(e.Total.ConnectBytes) }},
	} {
		row := Row{Name: line.name}
		for _, e := range all {
			row.Values = append(row.Values, line.of(e))
		}
		rows = append(rows, row)
	}
	return rows
}

// formatCount separates thousands by commas.
func formatCount(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// formatBytes formats a number of bytes.
func formatBytes(n float64) string {
	for _, unit := range []struct {
		name  string
		bytes float64
	}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if n >= unit.bytes {
			return fmt.Sprintf("%.3g %s", n/unit.bytes, unit.name)
		}
	}
	return fmt.Sprintf("%.3g B", n)
}

// formatDuration formats a time with three digits.
func formatDuration(s measure.Seconds) string {
	if d := time.Duration(s); d < time.Second {
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.3g s", s.Float())
}
