package agent

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/agent/callers"
	"github.com/lateen-mesh/lateen/internal/agent/envoy"
	"github.com/lateen-mesh/lateen/internal/agent/meshstats"
	"github.com/lateen-mesh/lateen/internal/agent/metrics"
	"github.com/lateen-mesh/lateen/internal/agent/settings"
	"github.com/lateen-mesh/lateen/internal/agent/status"
	"github.com/lateen-mesh/lateen/internal/observe/footprint"
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
	refused := b.refused()
	if err := b.admin(refused); err != nil {
		return err
	}
	return b.status(ending, accepted, refused)
}

// admin passes on to Envoy's admin interface what processes of this machine other than Envoy ask.
func (b *builder) admin(refused func(error)) error {
	e := b.Settings.Envoy
	at := net.JoinHostPort(b.Settings.Node.Loopback().String(), strconv.Itoa(int(e.AdminPort)))
	l, err := net.Listen("tcp", at)
	if err != nil {
		return fmt.Errorf("port of the admin interface (ProxyConfig.proxyAdminPort): %w", err)
	}
	gate := envoy.Gate{Socket: e.AdminSocket(), Check: b.guard().Check, Refused: refused}
	b.add("admin", func(ctx context.Context) error { return gate.Run(ctx, l) })
	return nil
}

func (b *builder) guard() callers.Guard { return callers.Guard{PID: b.supervisor.PID} }

// refusalEvery is how often a refused caller is logged.
const refusalEvery = time.Minute

// refused returns what counts and logs callers that may not ask.
func (b *builder) refused() func(error) {
	count := b.registry.Counter("lateen_agent_refused_callers_total",
		"Requests to the agent or to Envoy's admin interface from callers that may not ask.")
	var mu sync.Mutex
	var last time.Time
	return func(err error) {
		count.Inc()
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(last) >= refusalEvery {
			last = now
			b.Log.Warn("a caller is refused", "err", err)
		}
	}
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
func (b *builder) status(ending <-chan struct{}, accepted func() bool, refused func(error)) error {
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
		EnvoyAdmin: s.Envoy.AdminSocket(),
		Check:      b.guard().Check,
		Refused:    refused,
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
	return envoy.NewAdmin(s.Envoy.AdminSocket())
}
