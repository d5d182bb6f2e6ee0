package lab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

// The sizes of gateway-api-bench. Times between changes are those of its load.
const (
	gatewayRouteSpaces   = 50
	gatewayRoutesEach    = 100
	gatewayProbes        = 100
	gatewayRouteChanges  = 20
	gatewayChangePause   = 200 * time.Millisecond
	gatewayChurnPause    = time.Second
	gatewayChurnWindow   = 30 * time.Second
	gatewayFailureWindow = 3 * time.Second
)

func gatewayLab() Lab {
	return Lab{
		Name:     "gateway",
		About:    "routes of the Gateway API: propagation, 5,000 of them, changes under traffic, failover",
		Document: "gateway-api-bench, part 1 (Istio 1.26, Envoy Gateway 1.4, Cilium 1.17) and part 2",
		Reproduces: "route propagation with and without load, route scale, route changes, backend failover, " +
			"ListenerSets and attached routes",
		Steps: []string{
			"one real Envoy as a gateway; routes are added one by one, and each is asked for until it is there",
			"5,000 routes to services of their own in 50 namespaces; each second one of them and a pod change",
			"routes are added again, beside these",
			"a route that is in use changes its backend port and a filter 20 times, under 200 requests a second",
			"one of three backends refuses connections, without and with outlier detection",
			"ListenerSets with a route are added one by one, under 200 requests a second to the Gateway's own",
			"with --kubeconfig: 5,000 routes in 50 namespaces of a cluster are added as fast as it takes them, and " +
				"removed; the updates of the Gateway's status are counted",
		},
		Scale: 1, NeedsEnvoy: true,
		tables: gatewayTables,
		run:    runGateway,
	}
}

func gatewayTables() []Table {
	propagation := []Column{
		{"new routes", Count}, {"p50", Seconds}, {"slowest", Seconds}, {"neither 404 nor 200", Count},
	}
	scale := []Column{
		{"routes", Count}, {"CPU", Cores}, {"changes", Count}, {"CPU for one change", Seconds}, {"memory", Bytes},
	}
	traffic := []Column{{"requests", Count}, {"not answered with 200", Count}}
	failover := []Column{{"requests", Count}, {"failed", Count}, {"attempts at it", Count}}
	return []Table{
		{Title: "A new route, until the gateway answers 200", Columns: propagation, Rows: []Row{
			row("no other routes", len(propagation), "3,000", "", "Istio 300 ms, Envoy Gateway 600 ms", "0 (Istio)"),
			row("beside 5,000 routes that change", len(propagation), "", "", "Istio 375 ms, Envoy Gateway 2 s"),
		}},
		{Title: "5,000 routes in 50 namespaces: the control plane", Columns: scale, Rows: []Row{
			row("one route and one pod change a second", len(scale), "5,000",
				"Istio 1.0x, Kgateway 6.6x, Envoy Gateway 14.6x, Cilium 16.4x", "", "",
				"Cilium 1.0x, Istio 1.5x, Envoy Gateway 8.7x"),
		}},
		{Title: "A route in use changes", Columns: traffic, Rows: []Row{
			row("backend port and filter, 20 times", len(traffic), "", "0 (Istio), errors (Envoy Gateway, Cilium)"),
		}},
		{Title: "One of three backends refuses connections", Columns: failover, Rows: []Row{
			row("default", len(failover), "", "a third without retries, near 0 with (Istio)"),
			row("outlier detection (5 errors)", len(failover)),
		}},
		listenerTable(),
		attachedRoutesTable(),
	}
}

func runGateway(ctx context.Context, r *run) error {
	if err := r.requestsOfGateway(ctx); err != nil {
		return err
	}
	return r.countAttached(ctx)
}

// requestsOfGateway measures by requests at a real gateway.
func (r *run) requestsOfGateway(ctx context.Context) (err error) {
	g, err := r.openGateway(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close(ctx)) }()
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return g.propagation(ctx, 0) },
		g.scale, g.changeUnderTraffic,
		func(ctx context.Context) error { return g.failover(ctx, 0) },
		func(ctx context.Context) error { return g.failover(ctx, 1) },
		g.listenerSets,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	r.note("Published CPU and memory are ratios to the least of all; ours are absolute, as a run has one control " +
		"plane. But for attached routes its objects are in memory, so that no API server takes part. The gateway, " +
		"backends, requests and the control plane share this machine.")
	return nil
}

// propagation adds routes one after the other, and fills a row with how long each took to answer.
func (g *gatewayWorld) propagation(ctx context.Context, at int) error {
	times, n := measure.NewDistribution(), g.scaled(gatewayProbes, 3)
	failed := 0
	for i := range n {
		g.Progress("new routes", i, n)
		name := fmt.Sprintf("probe-%d-%d", at, i)
		added, err := routeChange(gatewayNamespace, name, "backend", backendPort, false)
		if err != nil {
			return err
		}
		written := time.Now()
		if err := g.c.plane.Apply(ctx, added); err != nil {
			return err
		}
		errs, err := g.awaitRoute(ctx, hostOf(name, gatewayNamespace))
		if err != nil {
			return fmt.Errorf("route %s: %w", name, err)
		}
		times.Add(time.Since(written))
		failed += errs
	}
	g.tables[0].put(at, float64(n), times.Quantile(0.5).Seconds(), times.Quantile(1).Seconds(), float64(failed))
	return nil
}

// awaitRoute asks for a host until it is answered with 200. It counts what is neither that nor 404.
func (g *gatewayWorld) awaitRoute(ctx context.Context, host string) (failed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, g.Patience)
	defer cancel()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		switch status, err := statusOf(ctx, g.client, "http://"+host+"/"); {
		case ctx.Err() != nil:
			return failed, ctx.Err()
		case status == http.StatusOK:
			return failed, nil
		case err != nil || status != http.StatusNotFound:
			failed++
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return failed, ctx.Err()
		}
	}
}

// scale adds the routes of all namespaces, changes them for a while, and adds new ones beside.
func (g *gatewayWorld) scale(ctx context.Context) error {
	spaces, each := g.gatewayRoutes()
	g.Progress("adding routes", 0, 0)
	apps, err := gatewayApps(spaces, each)
	if err != nil {
		return err
	}
	if err := g.c.plane.Apply(ctx, apps...); err != nil {
		return err
	}
	if err := g.addRoute(ctx, gatewayNamespace, "last"); err != nil {
		return fmt.Errorf("after %d routes: %w", spaces*each, err)
	}
	return g.churn(ctx, spaces, each)
}

// gatewayRoutes returns in how many namespaces how many routes are each.
func (r *run) gatewayRoutes() (spaces, each int) {
	if r.Scale < 1.0/gatewayRouteSpaces {
		return 2, 3
	}
	return r.scaled(gatewayRouteSpaces, 2), gatewayRoutesEach
}

// churn changes the routes of all namespaces, measures what that takes, and adds new ones beside.
func (g *gatewayWorld) churn(ctx context.Context, spaces, each int) error {
	churned, cancel := context.WithCancel(ctx)
	defer cancel()
	churn := &gatewayChurn{world: g, spaces: spaces, each: each}
	var running sync.WaitGroup
	running.Go(func() { churn.run(churned) })
	defer running.Wait()
	defer cancel()
	before, err := g.c.plane.Usage(ctx)
	if err != nil {
		return err
	}
	started := churn.done.Load()
	g.Progress("routes change", 0, 0)
	if err := g.pause(ctx, gatewayChurnWindow); err != nil {
		return err
	}
	now, err := g.c.plane.Usage(ctx)
	if err != nil {
		return err
	}
	used := now.Since(before).CPU.Seconds()
	changes := float64(churn.done.Load() - started)
	g.tables[1].put(0, float64(spaces*each), used/now.At.Sub(before.At).Seconds(), changes, used/max(changes, 1),
		float64(now.Resident))
	if err := g.propagation(ctx, 1); err != nil {
		return err
	}
	cancel()
	running.Wait()
	return churn.err
}

// changeUnderTraffic changes a route while requests use it.
func (g *gatewayWorld) changeUnderTraffic(ctx context.Context) error {
	host := hostOf("changing", gatewayNamespace)
	requests, stop, err := g.traffic(ctx, "changing")
	if err != nil {
		return err
	}
	defer stop()
	for i := range gatewayRouteChanges {
		g.Progress("a route changes under traffic", i, gatewayRouteChanges)
		port := backendPort
		if i%2 == 0 {
			port = backendPort + 1
		}
		changed, err := routeChange(gatewayNamespace, "changing", "backend", port, i%2 == 0)
		if err != nil {
			return err
		}
		if err := g.c.plane.Apply(ctx, changed); err != nil {
			return err
		}
		if err := g.pause(ctx, gatewayChangePause); err != nil {
			return err
		}
	}
	if _, err := g.awaitRoute(ctx, host); err != nil {
		return err
	}
	stop()
	g.tables[2].put(0, float64(requests.sent), float64(requests.failed))
	return g.c.plane.Apply(ctx, memory.Delete(routeKind, gatewayNamespace, "changing"))
}

// failover has one of the backends refuse connections for a while.
func (g *gatewayWorld) failover(ctx context.Context, at int) error {
	if at == 1 {
		rule, err := objects(outlierDetection("backend." + gatewayNamespace + ".svc.cluster.local"))
		if err != nil {
			return err
		}
		if err := g.c.plane.Apply(ctx, rule...); err != nil {
			return err
		}
		// A route that is written after the rule is there after it.
		if err := g.addRoute(ctx, gatewayNamespace, "after-rule"); err != nil {
			return err
		}
	}
	requests, stop, err := g.traffic(ctx, "steady")
	if err != nil {
		return err
	}
	defer stop()
	before, err := g.connectFailures(ctx)
	if err != nil {
		return err
	}
	g.Progress("a backend refuses connections", at, 2)
	if err := g.backends[0].close(); err != nil {
		return err
	}
	if err := g.pause(ctx, gatewayFailureWindow); err != nil {
		return err
	}
	if err := g.backends[0].open(); err != nil {
		return err
	}
	stop()
	after, err := g.connectFailures(ctx)
	g.tables[3].put(at, float64(requests.sent), float64(requests.failed), after-before)
	return err
}
