package agent

import (
	"context"
	"net/netip"
	"time"

	"github.com/lateen-mesh/lateen/internal/agent/envoy"
	"github.com/lateen-mesh/lateen/internal/agent/footprint"
	"github.com/lateen-mesh/lateen/internal/agent/meshstats"
	"github.com/lateen-mesh/lateen/internal/agent/metrics"
	"github.com/lateen-mesh/lateen/internal/agent/settings"
	"github.com/lateen-mesh/lateen/internal/agent/status"
)

// builder collects what serves beside Envoy. Each part opens its sockets when it is built, so that
// Envoy finds them.
type builder struct {
	Options
	supervisor *envoy.Supervisor
	registry   *metrics.Registry
	services   []service
	// started is called when Envoy has accepted its first configuration.
	started func()
}

// trimEvery is how often memory is given back that is not used.
const trimEvery = 5 * time.Minute

func (b *builder) add(name string, run func(context.Context) error) {
	b.services = append(b.services, service{name, run})
}

// build builds all parts. ending is closed when the agent is told to end.
func (b *builder) build(ending <-chan struct{}) error {
	b.footprint()
	names, err := b.dns()
	if err != nil {
		return err
	}
	certificate, err := b.certificates()
	if err != nil {
		return err
	}
	accepted, err := b.xds(names, certificate)
	if err != nil {
		return err
	}
	return b.status(ending, accepted)
}

// footprint gives memory back before Envoy starts, when the start is over, and now and then.
func (b *builder) footprint() {
	started := make(chan struct{}, 1)
	b.started = func() { started <- struct{}{} }
	b.add("footprint", func(ctx context.Context) error {
		tick := time.NewTicker(trimEvery)
		defer tick.Stop()
		for {
			if err := footprint.Trim(); err != nil {
				b.Log.Debug("unused memory is kept", "err", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-started:
			case <-tick.C:
			}
		}
	})
}

// status serves probes and metrics.
func (b *builder) status(ending <-chan struct{}, accepted func() bool) error {
	s := b.Settings
	if s.Status.Port == 0 {
		return nil
	}
	l, err := status.Listen(s.Status.Port)
	if err != nil {
		return err
	}
	server := status.New(status.Options{
		Settings:   s.Status,
		Pod:        s.Node.Addresses[0],
		EnvoyAdmin: netip.AddrPortFrom(s.Node.Loopback(), s.Envoy.AdminPort),
		Self:       meshstats.Self{Workload: s.Node.Workload(), Principal: s.Node.Principal()},
		Readiness:  &status.Readiness{Stats: admin(s).Stats, Accepted: accepted, Ending: ending},
		Registry:   b.registry,
		Drain:      b.supervisor.DrainNow,
		Quit:       b.supervisor.Quit,
		Log:        b.Log,
	})
	b.add("status", func(ctx context.Context) error { return server.Run(ctx, l) })
	return nil
}

func admin(s settings.Settings) *envoy.Admin {
	return envoy.NewAdmin(netip.AddrPortFrom(s.Node.Loopback(), s.Envoy.AdminPort))
}
