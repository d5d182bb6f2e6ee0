package lab

import (
	"context"
	"net/netip"
	"path/filepath"

	"github.com/lateen-mesh/lateen/internal/perf/airline"
	"github.com/lateen-mesh/lateen/internal/perf/handwritten"
)

// handChain is the airline's Envoys with a configuration by hand.
type handChain struct {
	state   string
	gateway netip.AddrPort
	// apps are where services listen, and in where their Envoys take requests for them.
	apps, in map[string]netip.AddrPort
	// customer and flight are where the Envoy of each service takes its requests to these two.
	customer, flight map[string]netip.AddrPort
	own, peer        map[string]any // transport sockets of servers and of clients; nil for plaintext
}

func newHandChain(state string, mutualTLS bool) (c handChain, err error) {
	c = handChain{
		state: state, apps: map[string]netip.AddrPort{}, in: map[string]netip.AddrPort{},
		customer: map[string]netip.AddrPort{}, flight: map[string]netip.AddrPort{},
	}
	const each = 4
	free, err := handwritten.FreeAddresses(1 + each*len(airline.Services()))
	if err != nil {
		return c, err
	}
	c.gateway = free[0]
	for i, s := range airline.Services() {
		own := free[1+each*i:]
		c.apps[s], c.in[s], c.customer[s], c.flight[s] = own[0], own[1], own[2], own[3]
	}
	if mutualTLS {
		c.own, c.peer, err = handwritten.Transports(state)
	}
	return c, err
}

// services returns where the services listen and call.
func (c handChain) services() map[string]airlineService {
	all := map[string]airlineService{}
	for _, s := range airline.Services() {
		all[s] = airlineService{c.apps[s], urlOf(c.customer[s]), urlOf(c.flight[s])}
	}
	return all
}

// start starts all Envoys, and returns when they listen.
func (c handChain) start(ctx context.Context, r *run, p *processes) error {
	configs := map[string]handwritten.Config{"gateway": c.gatewayConfig()}
	for _, s := range airline.Services() {
		configs["sidecar-"+s] = c.sidecarConfig(s)
	}
	for name, config := range configs {
		file := filepath.Join(c.state, name+".json")
		if err := config.Write(file); err != nil {
			return err
		}
		err := p.start(name, r.Envoy, "--config-path", file, "--concurrency", "1", "--disable-hot-restart",
			"--log-level", "warning")
		if err != nil {
			return err
		}
		err = p.await(ctx, r, func(ctx context.Context) error { return listens(ctx, config.Listeners) })
		if err != nil {
			return err
		}
	}
	return nil
}

// listens reports whether an Envoy listens everywhere.
func listens(ctx context.Context, all []handwritten.Listener) error {
	for _, l := range all {
		if err := handwritten.Dial(ctx, l.At); err != nil {
			return err
		}
	}
	return nil
}

// gatewayConfig leads requests to the services by their paths.
func (c handChain) gatewayConfig() (config handwritten.Config) {
	way := handwritten.Listener{Name: "in", At: c.gateway}
	for _, s := range airline.Services() {
		config.Clusters = append(config.Clusters, c.peerOf(s))
		if s != airline.Main {
			way.Routes = append(way.Routes, handwritten.Route{Prefix: pathOf(s), Cluster: s})
		}
	}
	way.Routes = append(way.Routes, handwritten.Route{Prefix: "/", Cluster: airline.Main})
	config.Listeners = []handwritten.Listener{way}
	return config
}

// sidecarConfig takes a service's requests, and passes on those that it sends.
func (c handChain) sidecarConfig(service string) handwritten.Config {
	const app = "app"
	to := func(cluster string) []handwritten.Route { return []handwritten.Route{{Prefix: "/", Cluster: cluster}} }
	return handwritten.Config{
		Listeners: []handwritten.Listener{
			{Name: "in", At: c.in[service], Routes: to(app), Transport: c.own},
			{Name: "customer", At: c.customer[service], Routes: to(airline.Customer)},
			{Name: "flight", At: c.flight[service], Routes: to(airline.Flight)},
		},
		Clusters: []handwritten.Cluster{
			{Name: app, To: c.apps[service]}, c.peerOf(airline.Customer), c.peerOf(airline.Flight),
		},
	}
}

// peerOf is the Envoy of another service.
func (c handChain) peerOf(service string) handwritten.Cluster {
	return handwritten.Cluster{Name: service, To: c.in[service], Transport: c.peer}
}
