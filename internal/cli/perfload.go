package cli

import "github.com/spf13/cobra"

// loadTest is the program that sends requests and draws reports. It is apart from this one, because
// it links Fortio and charts.
const loadTest companion = "lateen-perf"

// loadTestCommands returns the commands of lateen perf that it carries out.
func loadTestCommands() []*cobra.Command {
	return []*cobra.Command{
		loadTest.command("data-plane", "What proxies add to requests, beside no proxy and beside hand-written Envoys",
			"  lateen perf data-plane --preset aks"),
	}
}
