package loadtest

import (
	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// newGateway makes the command that runs the lab of the Gateway API.
func newGateway(out, progress *terminal.Writer) *cobra.Command {
	f := labFlags{}
	return f.complete(&cobra.Command{
		Use:   "gateway",
		Short: "Routes of the Gateway API: propagation, 5,000 of them, changes under traffic",
		Long: `Does what the public gateway-api-bench does, with one real Envoy as a gateway: how long a new route
takes until the gateway answers, with no other routes and beside 5,000 in 50 namespaces that change; what
these take of the control plane; whether each request is answered while its route changes; how many fail
while one of three backends refuses connections; and how long a new ListenerSet takes. The published
figures stand beside.`,
		Example: `  lateen perf gateway
  lateen perf gateway --scale 0.1 --report results`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, "gateway", out, progress) },
	})
}
