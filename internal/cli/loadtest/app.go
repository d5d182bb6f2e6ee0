package loadtest

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/airline"
)

// newApp makes the command that runs the lab of the airline.
func newApp(out, progress *terminal.Writer) *cobra.Command {
	f := labFlags{}
	return f.complete(&cobra.Command{
		Use:   "app",
		Short: "Throughput of a realistic application, an airline, with and without the mesh",
		Long: `Runs an airline of five services (main, auth with JWT, flight, customer, booking with reward miles),
each with a database of its own: as plain processes, behind Envoys whose configuration is written by
hand, and with Lateen's sidecars behind a gateway. It sends the transaction mix of Acme Air at the
published load and at the airline's capacity, and prints the throughput of each, beside KubeCon's
74 %. lateen perf jmeter has JMeter send the same mix.`,
		Example: `  lateen perf app
  lateen perf app --clients 32 --think 10ms --report results`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, "app", out, progress) },
	})
}

// newAirline makes the command that pods of the airline run.
func newAirline() *cobra.Command {
	var s airline.Server
	cmd := &cobra.Command{
		Use:     "airline",
		Short:   "One service of the airline, which lateen perf app runs",
		Example: "  lateen-perf airline --service flight --data /tmp",
		Hidden:  true,
		Args:    command.Arguments(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return s.Serve(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&s.Service, "service", airline.Main, "which service to be")
	flags.StringVar(&s.Address, "address", "127.0.0.1", "the IP address to listen at")
	flags.IntVar(&s.Port, "port", airline.Port, "the port to listen at")
	flags.StringVar(&s.Data, "data", ".", "the directory of the database")
	flags.StringVar(&s.CustomerURL, "customer", "http://customer:9080", "where the customer service is")
	flags.StringVar(&s.FlightURL, "flight", "http://flight:9080", "where the flight service is")
	flags.StringVar(&s.Proxy, "proxy", os.Getenv("HTTP_PROXY"), "the HTTP proxy for calls to them")
	command.OneOf(cmd, "service", &s.Service, airline.Services()...)
	return cmd
}
