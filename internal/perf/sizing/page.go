package sizing

import (
	"fmt"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// perSidecars and perRequests are the units of the tables of Page.
const perSidecars = 1000

// Page returns docs/sizing.md: what proxies and the control plane need, from measured costs.
func Page(c Constants, d DataPlane) (string, error) {
	var page strings.Builder
	page.WriteString(`# Sizing

What this page gives: vCPU and memory of proxies for each 1,000 requests a second, and of the
control plane for each 1,000 sidecars and each change a second. A program writes it
(` + "`make sizing`" + `, ` + "`make constants`" + `).

For a mesh of your own ask

` + "```" + `
lateen perf model --services 3000 --pods 6000 --changes-per-second 5 --requests 20000
` + "```" + `

It says how many replicas there should be, with how much CPU and memory, which limit asks for so
many, and what the proxies take. ` + "`lateen perf constants`" + ` measures the costs on another machine,
and [` + "`lateen advise`" + `](guides/tune.md) reckons with them.

## Proxies

`)
	d.table(&page)
	page.WriteString("\n## The control plane\n\n")
	c.tables(&page)
	page.WriteString("\n## What some meshes need\n\n")
	err := c.examples(&page, d)
	return page.String(), err
}

// table writes the costs of requests.
func (d DataPlane) table(page *strings.Builder) {
	fmt.Fprintf(page, "For each 1,000 requests a second (%s a second over %d connections, HTTP/1.1 in mutual\n"+
		"TLS, bodies of %d bytes, %d workers):\n\n", formatCount(int(d.QPS)), d.Connections, d.Payload, d.Workers)
	page.WriteString("| telemetry | access logs | sidecar of the client | sidecar of the server | gateway |\n")
	page.WriteString("|---|---|---:|---:|---:|\n")
	cell := func(p ProxyCost) string { return fmt.Sprintf("%.2f vCPU, %s", p.Cores, formatBytes(p.Bytes)) }
	onOff := map[bool]string{true: "on", false: "off"}
	for _, x := range d.Cases {
		fmt.Fprintf(page, "| %s | %s | %s | %s | %s |\n", onOff[x.Telemetry], onOff[x.AccessLogs], cell(x.Client),
			cell(x.Server), cell(x.Gateway))
	}
	fmt.Fprintf(page, "\nMeasured by `%s` with lateen %s on %d CPUs (%s).\n"+
		"Memory is that of the whole proxy. CPU is the least of several rounds. Rounds differ by 0.02 to\n"+
		"0.05 vCPU, so rows that differ by as much are equal.\n", d.Command, d.Version, d.Machine.Cores, d.Machine.CPU)
}

// tables writes the costs of sidecars and changes.
func (c Constants) tables(page *strings.Builder) {
	page.WriteString("For each 1,000 sidecars that see so many services:\n\n")
	page.WriteString("| services | memory | all connect: CPU | all connect: bytes to them |\n")
	page.WriteString("|---:|---:|---:|---:|\n")
	for _, services := range []int{100, 1000, 3000, 10_000} {
		first := c.FirstConnection(Mesh{Services: services, Seen: 1}).Times(perSidecars)
		fmt.Fprintf(page, "| %s | %s | %s | %s |\n", formatCount(services), formatBytes(perSidecars*c.SidecarBytes),
			formatDuration(seconds(first.CPUSeconds)), formatBytes(first.Sent))
	}
	fmt.Fprintf(page, "\nTo this come, once in each replica, %s for the process, %s for each 1,000 services\n"+
		"and %s for each 1,000 Pods; and garbage, half as much again with the default `GOGC=50`.\n\n",
		formatBytes(c.BaseBytes), formatBytes(1000*(c.ServiceBytes+c.TranslatedBytes)), formatBytes(1000*c.PodBytes))
	page.WriteString("For each change a second, and each 1,000 sidecars that see it:\n\n")
	page.WriteString("| change | vCPU | to sidecars | from sidecars |\n|---|---:|---:|---:|\n")
	for _, kind := range c.Kinds() {
		one := c.Change[kind].Times(perSidecars)
		fmt.Fprintf(page, "| `%s` | %.3f | %s/s | %s/s |\n", kind, one.CPUSeconds, formatBytes(one.Sent),
			formatBytes(one.Received))
	}
	fmt.Fprintf(page, "\nMeasured by `%s`\nwith lateen %s on %d CPUs (%s).\n", c.Command, c.Version, c.Machine.Cores,
		c.Machine.CPU)
}

// DefaultLimits are those of lateen perf model.
func DefaultLimits() Limits {
	return Limits{
		Cores: 4, Memory: 16 << 30, Headroom: 0.5, Busy: 0.5, LastSidecar: measure.Seconds(2 * time.Second),
		Connect: measure.Seconds(5 * time.Minute), Spare: 1,
	}
}

// examples writes the estimates for meshes of published tests.
func (c Constants) examples(page *strings.Builder, d DataPlane) error {
	page.WriteString("By the model, with a spare replica; a replica's limits are the defaults of " +
		"`lateen perf model`.\n\n")
	page.WriteString("| mesh | replicas | CPUs that changes take | memory of a replica | CPU time of one change |" +
		" proxies |\n")
	page.WriteString("|---|---:|---:|---:|---:|---:|\n")
	for _, x := range []struct {
		name     string
		mesh     Mesh
		requests float64
	}{
		{"1,000 services, 2,000 sidecars, 70,000 requests/s, 1 change/s (Istio's published mesh)",
			Mesh{Sidecars: 2000, Services: 1000, Pods: 2000, Seen: 1, Changes: 1, Kind: "endpoints"}, 70_000},
		{"3,000 services, 6,000 of 10,000 Pods, 5 changes/s (KubeCon 2019)",
			Mesh{Sidecars: 6000, Services: 3000, Pods: 10_000, Seen: 1, Changes: 5, Kind: "endpoints"}, 1335},
		{"1 service, 15,000 sidecars, 31 changes/s (Azure, 50 % churn)",
			Mesh{Sidecars: 15_000, Services: 1, Pods: 15_000, Seen: 1, Changes: 31.2, Kind: "endpoints"}, 0},
		{"1,000 services, 20,000 sidecars (Azure)",
			Mesh{Sidecars: 20_000, Services: 1000, Pods: 20_000, Seen: 1, Changes: 1, Kind: "endpoints"}, 0},
	} {
		e, err := c.Estimate(x.mesh, DefaultLimits())
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		proxies := "-"
		if x.requests > 0 {
			need := d.Need(x.requests, 0, x.mesh.Sidecars)
			proxies = fmt.Sprintf("%.1f vCPU, %s", need.Cores, formatBytes(need.Bytes))
		}
		fmt.Fprintf(page, "| %s | %d | %.2f | %s | %s | %s |\n", x.name, e.Replicas, e.Total.Cores,
			formatBytes(e.Replica.MemoryBytes), formatDuration(e.Replica.LastSidecar), proxies)
	}
	return nil
}
