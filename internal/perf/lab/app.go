package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/airline"
	"github.com/lateen-mesh/lateen/internal/perf/dataplane"
)

// appWindow is how long each path is measured in each of appRounds.
const (
	appWindow = 15 * time.Second
	appRounds = 3
)

func appLab() Lab {
	return Lab{
		Name:       "app",
		About:      "throughput of an airline of five services, with and without the mesh",
		Document:   "KubeCon China 2019, and the realistic application benchmark of Istio (Acme Air, BluePerf)",
		Reproduces: "the requests a second with and without Istio, and their ratio",
		Steps: []string{
			"five services with a database each, once without and once with sidecars and a gateway",
			"clients send the published mix of transactions: login, profile, flights, booking, rewards, logout",
		},
		Scale: 1, NeedsEnvoy: true,
		tables: appTables,
		run:    runApp,
	}
}

func appTables() []Table {
	columns := []Column{{"requests", PerSecond}, {"of them without the mesh", Percent}, {"failed", Count}}
	return []Table{{Title: "The airline", Columns: columns, Rows: []Row{
		row("without the mesh", len(columns), "1,335.1/s", "100 %"),
		row("with gateway and sidecars", len(columns), "999.0/s", "74 %"),
	}}}
}

func runApp(ctx context.Context, r *run) (err error) {
	bare, stop, err := r.bareAirline(ctx)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	mesh, err := r.meshedAirline(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mesh.Stop()) }()
	for _, p := range mesh.Problems() {
		r.note("%s", p)
	}
	meshed := map[string]string{}
	for _, s := range airline.Services() {
		meshed[s] = "http://" + mesh.Gateway()
	}
	var sent, failed [2]float64
	var elapsed [2]float64
	for round := range appRounds {
		for i, urls := range []map[string]string{bare, meshed} {
			r.Progress([]string{"without the mesh", "with the mesh"}[i], 2*round+i, 2*appRounds)
			result := airline.Load{
				URLs: urls, Clients: max(1, r.Clients), Think: r.Think,
				Duration: max(time.Second/2, time.Duration(float64(appWindow)*r.Pause)),
			}.Run(ctx)
			sent[i], failed[i] = sent[i]+float64(result.Total()), failed[i]+float64(result.Failed)
			elapsed[i] += result.Elapsed.Seconds()
			if result.Why != "" {
				r.note("A request has failed: %s", result.Why)
			}
		}
	}
	for i := range sent {
		share := 100 * (sent[i] / elapsed[i]) / max(sent[0]/elapsed[0], 1e-9)
		r.tables[0].put(i, sent[i]/elapsed[i], share, failed[i])
	}
	r.note("%d clients, think time %v. Clients, services, their databases and all proxies share this machine, so the "+
		"proxies take their CPU from the services.", max(1, r.Clients), r.Think)
	return ctx.Err()
}

// bareAirline starts the services as processes that call each other directly. stop ends them, also
// after an error.
func (r *run) bareAirline(ctx context.Context) (urls map[string]string, stop func() error, err error) {
	urls = map[string]string{}
	var all []*exec.Cmd
	stop = func() (err error) {
		for _, c := range all {
			err = errors.Join(err, c.Process.Kill())
			_ = c.Wait() // it was killed
		}
		return err
	}
	ports := map[string]uint16{}
	for _, s := range airline.Services() {
		if ports[s], err = freePort(); err != nil {
			return nil, stop, err
		}
		urls[s] = fmt.Sprintf("http://127.0.0.1:%d", ports[s])
	}
	for _, s := range airline.Services() {
		data := filepath.Join(r.StateDir, "bare-"+s)
		if err := os.MkdirAll(data, 0o755); err != nil {
			return nil, stop, err
		}
		c := exec.Command(r.Self, "airline", "--service", s, "--address", "127.0.0.1", "--port",
			strconv.Itoa(int(ports[s])), "--data", data, "--customer", urls[airline.Customer], "--flight",
			urls[airline.Flight], "--proxy=")
		c.SysProcAttr = attributes()
		if err := c.Start(); err != nil {
			return nil, stop, err
		}
		all = append(all, c)
	}
	ready := 0
	err = r.await(ctx, "starting the services", len(all), func() int {
		for ready < len(all) && get(ctx, http.DefaultClient, urls[airline.Services()[ready]]+"/health") == nil {
			ready++
		}
		return ready
	})
	return urls, stop, err
}

// meshedAirline starts the services with sidecars, behind a gateway.
func (r *run) meshedAirline(ctx context.Context) (*dataplane.Application, error) {
	o := dataplane.Options{
		Envoy: r.Envoy, Self: r.Self, StateDir: filepath.Join(r.StateDir, "airline"), IstioVersion: istioVersion,
		Version: r.Version, MutualTLS: true, Workers: 1, Telemetry: true, Log: slog.New(slog.DiscardHandler),
	}
	port := strconv.Itoa(airline.Port)
	manifests := []string{airlineRoutes()}
	for _, s := range airline.Services() {
		data := filepath.Join(r.StateDir, "mesh-"+s)
		if err := os.MkdirAll(data, 0o755); err != nil {
			return nil, err
		}
		manifests = append(manifests, dataplane.Deployment{Name: s, Port: port, Command: []string{
			r.Self, "airline", "--service", s, "--address", "$(LATEEN_APP_ADDRESS)", "--port", port, "--data", data,
			"--customer", "http://customer:" + port, "--flight", "http://flight:" + port,
		}}.Manifest(o), service(dataplane.Namespace, s, s, airline.Port))
	}
	r.Progress("starting the mesh", 0, 0)
	return dataplane.StartApplication(ctx, o, manifests, airline.Services()...)
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
		prefix := "/" + s + "/"
		if s == airline.Main {
			continue
		}
		text += fmt.Sprintf("\n  - {match: [{uri: {prefix: %s}}], route: [{destination: {host: %s}}]}", prefix, s)
	}
	return text + fmt.Sprintf("\n  - {route: [{destination: {host: %s}}]}", airline.Main)
}
