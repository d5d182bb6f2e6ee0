package loadtest

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// newGateway makes the command that runs the lab of the Gateway API.
func newGateway(out, progress *terminal.Writer) *cobra.Command {
	f := labFlags{}
	cmd := f.complete(&cobra.Command{
		Use:   "gateway",
		Short: "Routes of the Gateway API: propagation, 5,000 of them, changes under traffic",
		Long: `Does what the public gateway-api-bench does, with one real Envoy as a gateway: how long a new route
takes until the gateway answers, with no other routes and beside 5,000 in 50 namespaces that change; what
these take of the control plane; whether each request is answered while its route changes; how many fail
while one of three backends refuses connections; and how long a new ListenerSet takes. The published
figures stand beside.

With --kubeconfig routes are also added to that cluster, and removed: how long it takes until the
status of their Gateway counts them, and how often that is written. --run and --target do the same with
another control plane first; all else is measured of Lateen alone.`,
		Example: `  lateen perf gateway
  lateen perf gateway --scale 0.1 --report results
  lateen perf gateway --kubeconfig k.yaml --target 127.0.0.1:15010 \
    --run 'pilot-discovery discovery --kubeconfig k.yaml'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.o.Cluster.Run != "" && f.o.Cluster.Kubeconfig == "" {
				return errors.New("--run is about a control plane that reads an API server: want --kubeconfig")
			}
			return command.Arguments()(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, "gateway", out, progress) },
	})
	flags := cmd.Flags()
	flags.StringVar(&f.o.Cluster.Kubeconfig, "kubeconfig", "", "attach routes in this cluster, which has the "+
		"definitions of the Gateway API; what is written is deleted at the end")
	flags.StringVar(&f.o.Cluster.Run, "run", "", "with --kubeconfig and --target: the command that runs another "+
		"control plane of the cluster, for the attached routes")
	flags.StringVar(&f.o.Cluster.Target, "target", "", "with --run: where that serves xDS, host:port")
	_ = cmd.MarkFlagFilename("kubeconfig")
	cmd.MarkFlagsRequiredTogether("run", "target")
	return cmd
}
