package lab

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/lateen-mesh/lateen/internal/api/istionames"
	"github.com/lateen-mesh/lateen/internal/perf/airline"
	"github.com/lateen-mesh/lateen/internal/perf/dataplane"
	"github.com/lateen-mesh/lateen/internal/perf/handwritten"
)

// stateOf makes a new directory for state.
func (r *run) stateOf(name string) (string, error) { return os.MkdirTemp(r.StateDir, name+"-") }

// processes are those of a system without Kubernetes.
type processes struct {
	state string // the directory of their logs
	all   []*daemon
}

func (p *processes) start(name string, argv ...string) error {
	d, err := startDaemon(p.state, name, argv...)
	if err == nil {
		p.all = append(p.all, d)
	}
	return err
}

// await waits until the last one that was started does something.
func (p *processes) await(ctx context.Context, r *run, does func(context.Context) error) error {
	return p.all[len(p.all)-1].await(ctx, r.Patience, does)
}

// stop ends them.
func (p *processes) stop() error {
	for _, d := range p.all {
		d.stop()
	}
	return nil
}

// airlineService says where a service listens, and where it calls others.
type airlineService struct {
	at               netip.AddrPort
	customer, flight string // URLs
}

// services starts the services of the airline as plain processes, and returns when they answer.
func (p *processes) services(ctx context.Context, r *run, all map[string]airlineService) error {
	for _, name := range airline.Services() {
		s, data := all[name], filepath.Join(p.state, name)
		if err := os.MkdirAll(data, 0o755); err != nil {
			return err
		}
		err := p.start("service-"+name, r.Self, "airline", "--service", name, "--address", s.at.Addr().String(),
			"--port", strconv.Itoa(int(s.at.Port())), "--data", data, "--customer", s.customer, "--flight", s.flight,
			"--proxy=")
		if err != nil {
			return err
		}
		err = p.await(ctx, r, func(ctx context.Context) error {
			return get(ctx, http.DefaultClient, urlOf(s.at)+"/health")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func urlOf(at netip.AddrPort) string { return "http://" + at.String() }

// behindGateway returns where each service is called if one gateway leads to all.
func behindGateway(gateway string) map[string]string {
	urls := map[string]string{}
	for _, name := range airline.Services() {
		urls[name] = gateway
	}
	return urls
}

// bareSystem starts the services as processes that call each other directly.
func bareSystem(ctx context.Context, r *run, state string) (map[string]string, func() error, error) {
	p, urls := &processes{state: state}, map[string]string{}
	free, err := handwritten.FreeAddresses(len(airline.Services()))
	if err != nil {
		return nil, p.stop, err
	}
	for i, name := range airline.Services() {
		urls[name] = urlOf(free[i])
	}
	all := map[string]airlineService{}
	for i, name := range airline.Services() {
		all[name] = airlineService{free[i], urls[airline.Customer], urls[airline.Flight]}
	}
	return urls, p.stop, p.services(ctx, r, all)
}

// byHand returns how to start the services behind Envoys whose configuration is written by hand: a
// gateway that routes by paths, and one at each service, by which requests come and go.
func byHand(mutualTLS bool) func(context.Context, *run, string) (map[string]string, func() error, error) {
	return func(ctx context.Context, r *run, state string) (map[string]string, func() error, error) {
		p := &processes{state: state}
		chain, err := newHandChain(state, mutualTLS)
		if err == nil {
			err = chain.start(ctx, r, p)
		}
		if err == nil {
			err = p.services(ctx, r, chain.services())
		}
		return behindGateway(urlOf(chain.gateway)), p.stop, err
	}
}

// inMesh returns how to start the services with sidecars, behind a gateway.
func inMesh(metrics bool) func(context.Context, *run, string) (map[string]string, func() error, error) {
	return func(ctx context.Context, r *run, state string) (map[string]string, func() error, error) {
		mesh, err := r.meshedAirline(ctx, state, metrics)
		if err != nil {
			return nil, func() error { return nil }, err
		}
		for _, problem := range mesh.Problems() {
			r.note("%s", problem)
		}
		return behindGateway("http://" + mesh.Gateway()), mesh.Stop, nil
	}
}

// meshedAirline starts the services with sidecars, behind a gateway.
func (r *run) meshedAirline(ctx context.Context, state string, metrics bool) (*dataplane.Application, error) {
	o := dataplane.Options{
		Envoy: r.Envoy, Self: r.Self, StateDir: state, IstioVersion: istionames.Version, Version: r.Version,
		MutualTLS: true, Workers: 1, Telemetry: metrics, Log: slog.New(slog.DiscardHandler),
	}
	manifests, err := airlineManifests(o, r.Self)
	if err != nil {
		return nil, err
	}
	return dataplane.StartApplication(ctx, o, manifests, airline.Services()...)
}

// airlineManifests returns the airline's Deployments, Services and routes.
func airlineManifests(o dataplane.Options, self string) ([]string, error) {
	port := strconv.Itoa(airline.Port)
	manifests := []string{airlineRoutes()}
	for _, s := range airline.Services() {
		data := filepath.Join(o.StateDir, "data-"+s)
		if err := os.MkdirAll(data, 0o755); err != nil {
			return nil, err
		}
		manifests = append(manifests, dataplane.Deployment{Name: s, Port: port, Command: []string{
			self, "airline", "--service", s, "--address", "$(LATEEN_APP_ADDRESS)", "--port", port, "--data", data,
			"--customer", "http://customer:" + port, "--flight", "http://flight:" + port,
		}}.Manifest(o), service(dataplane.Namespace, s, s, airline.Port))
	}
	return manifests, nil
}

// airlineRoutes leads requests from the gateway to the services by their paths.
func airlineRoutes() string {
	text := fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: airline, namespace: %[1]s}
spec:
  selector: {istio: perf}
  servers: [{port: {number: %[2]d, name: http, protocol: HTTP}, hosts: ["*"]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: airline, namespace: %[1]s}
spec:
  hosts: ["*"]
  gateways: [airline]
  http:`, dataplane.Namespace, dataplane.GatewayPort)
	for _, s := range airline.Services() {
		if s != airline.Main {
			text += fmt.Sprintf("\n  - {match: [{uri: {prefix: %s}}], route: [{destination: {host: %s}}]}", pathOf(s),
				s)
		}
	}
	return text + fmt.Sprintf("\n  - {route: [{destination: {host: %s}}]}", airline.Main)
}

// pathOf begins the paths of a service.
func pathOf(service string) string { return "/" + service + "/" }
