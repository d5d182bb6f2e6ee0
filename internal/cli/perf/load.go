package perf

import (
	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/results"
)

// loadTestCommands returns the commands of lateen perf that the program for load carries out.
func loadTestCommands() []*cobra.Command {
	const by = results.LoadTest
	return []*cobra.Command{
		by.Command("data-plane", "What proxies add to requests, beside no proxy and beside hand-written Envoys",
			"  lateen perf data-plane --preset aks"),
		by.Command("lab", "Run a published test: its table, with Lateen's figures beside",
			"  lateen perf lab book"),
		by.Command("app", "Throughput of a realistic application, an airline, with and without the mesh",
			"  lateen perf app"),
		by.Command("jmeter", "Have Apache JMeter send the airline's transactions, or merge results of several",
			"  lateen perf jmeter\n  lateen perf jmeter --merge host-1.jtl host-2.jtl"),
		by.Command("gateway", "Routes of the Gateway API: propagation, 5,000 of them, changes under traffic",
			"  lateen perf gateway"),
		by.Command("report", "Draw the reports of a directory as one HTML file, versions side by side",
			"  lateen perf report results"),
	}
}
