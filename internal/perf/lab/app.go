package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/airline"
)

// appWindow is how long each system is measured at each load, in each of appRounds.
const (
	appWindow = 8 * time.Second
	appRounds = 2
)

// capacityClients ask for as much as there is: they do not wait between two requests.
const capacityClients = 16

func appLab() Lab {
	return Lab{
		Name:       "app",
		About:      "throughput of an airline of five services, with and without the mesh",
		Document:   "KubeCon China 2019, and the realistic application benchmark of Istio (Acme Air, BluePerf)",
		Reproduces: "the requests a second with and without Istio, and their ratio",
		Steps: []string{
			"five services with a database each: as plain processes, behind Envoys whose configuration is written by " +
				"hand (a gateway, and one at each service), and with Lateen's gateway and sidecars",
			"clients send the published mix of transactions: login, profile, flights, booking, rewards, logout",
			"64 clients that wait 40 ms between two requests; then 16 that do not wait",
		},
		Scale: 1, NeedsEnvoy: true,
		tables: appTables,
		run:    runApp,
	}
}

func appTables() []Table {
	columns := []Column{
		{"requests", PerSecond}, {"of them without the mesh", Percent}, {"of them by hand", Percent}, {"failed", Count},
	}
	published := map[int][]string{bareAirline: {"1,335.1/s", "100 %"}, wholeAirline: {"999.0/s", "74 %"}}
	tables := []Table{
		{Title: "The airline at the published load", Columns: columns},
		{Title: "The airline at its capacity", Columns: columns},
	}
	for i, s := range airlineSystems() {
		tables[0].Rows = append(tables[0].Rows, row(s.name, len(columns), published[i]...))
		tables[1].Rows = append(tables[1].Rows, row(s.name, len(columns)))
	}
	return tables
}

// airlineSystem is a way to run the airline.
type airlineSystem struct {
	name string
	// start returns where each service is called. stop ends everything, also after an error.
	start func(ctx context.Context, r *run, state string) (urls map[string]string, stop func() error, err error)
}

// The systems that others are compared with, by their places, and the one that was published.
const (
	bareAirline  = 0
	handAirline  = 2
	wholeAirline = 4
)

func airlineSystems() []airlineSystem {
	return []airlineSystem{
		{"without the mesh", bareSystem},
		{"Envoys by hand, in plaintext", byHand(false)},
		{"Envoys by hand, in mutual TLS", byHand(true)},
		{"with gateway and sidecars, without metrics", inMesh(false)},
		{"with gateway and sidecars", inMesh(true)},
	}
}

// throughput is what one system did at one load.
type throughput struct{ sent, failed, elapsed float64 }

func (t throughput) rate() float64 { return t.sent / max(t.elapsed, 1e-9) }

func (t *throughput) add(result airline.Result) {
	t.sent, t.failed = t.sent+float64(result.Total()), t.failed+float64(result.Failed)
	t.elapsed += result.Elapsed.Seconds()
}

func runApp(ctx context.Context, r *run) error {
	systems := airlineSystems()
	loads := []airline.Load{
		{Clients: max(1, r.Clients), Think: r.Think},
		{Clients: capacityClients},
	}
	done := make([][]throughput, len(loads))
	for i := range done {
		done[i] = make([]throughput, len(systems))
	}
	for round := range appRounds {
		for at, s := range systems {
			r.Progress(s.name, round*len(systems)+at, appRounds*len(systems))
			results, err := r.runAirline(ctx, s, loads)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			for i, result := range results {
				done[i][at].add(result)
			}
		}
	}
	for i, all := range done {
		for at, t := range all {
			r.tables[i].put(at, t.rate(), percentOf(t, all[bareAirline]), percentOf(t, all[handAirline]), t.failed)
		}
	}
	r.note("%d clients with a think time of %v, and %d without. Clients, services, their databases and all proxies "+
		"share this machine, so proxies take their CPU from the services. Envoys by hand pass requests on and do "+
		"nothing else: what they cost is Envoy's own, and what mutual TLS adds shows between their two rows; what "+
		"Lateen's configuration adds is the last column.", loads[0].Clients, loads[0].Think, loads[1].Clients)
	return ctx.Err()
}

func percentOf(t, other throughput) float64 { return 100 * (t.rate() / max(other.rate(), 1e-9)) }

// runAirline starts a system, sends it the loads one after the other, and ends it.
func (r *run) runAirline(ctx context.Context, s airlineSystem, loads []airline.Load) (
	results []airline.Result, err error,
) {
	state, err := r.stateOf("airline")
	if err != nil {
		return nil, err
	}
	urls, stop, err := s.start(ctx, r, state)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return nil, err
	}
	for _, load := range loads {
		load.URLs = urls
		load.Duration = max(time.Second/2, time.Duration(float64(appWindow)*r.Pause))
		result := load.Run(ctx)
		if result.Why != "" {
			r.note("A request has failed (%s): %s", s.name, result.Why)
		}
		results = append(results, result)
	}
	return results, ctx.Err()
}
