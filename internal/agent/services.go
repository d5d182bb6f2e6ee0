package agent

import (
	"context"
	"net/netip"

	"github.com/lateen-mesh/lateen/internal/agent/envoy"
	"github.com/lateen-mesh/lateen/internal/agent/metrics"
	"github.com/lateen-mesh/lateen/internal/agent/settings"
	"github.com/lateen-mesh/lateen/internal/agent/status"
)

// services returns what serves beside Envoy. The sockets are open when it returns, so that Envoy
// finds them. ctx ends when the agent is told to end.
func services(
	ctx context.Context, o Options, supervisor *envoy.Supervisor, registry *metrics.Registry,
) ([]service, error) {
	var all []service
	if o.Settings.Status.Port != 0 {
		l, err := status.Listen(o.Settings.Status.Port)
		if err != nil {
			return nil, err
		}
		server := status.New(status.Options{
			Settings:     o.Settings.Status,
			Pod:          o.Settings.Node.Addresses[0],
			EnvoyMetrics: netip.AddrPortFrom(o.Settings.Node.Loopback(), o.Settings.Envoy.MetricsPort),
			Readiness:    &status.Readiness{Stats: admin(o.Settings).Stats, Ending: ctx.Done()},
			Registry:     registry,
			Drain:        supervisor.DrainNow,
			Quit:         supervisor.Quit,
			Log:          o.Log,
		})
		all = append(all, service{"status", func(ctx context.Context) error { return server.Run(ctx, l) }})
	}
	return all, nil
}

func admin(s settings.Settings) *envoy.Admin {
	return envoy.NewAdmin(netip.AddrPortFrom(s.Node.Loopback(), s.Envoy.AdminPort))
}
