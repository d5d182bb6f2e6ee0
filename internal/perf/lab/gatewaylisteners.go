package lab

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// gatewayListenerSets is how many ListenerSets are added, one by one, each with a host and a route
// of its own.
const gatewayListenerSets = 100

// listenerTable is the table of ListenerSets.
func listenerTable() Table {
	columns := []Column{
		{"ListenerSets", Count}, {"p50", Seconds}, {"slowest", Seconds}, {"neither 404 nor 200", Count},
		{"not answered with 200 by others", Count},
	}
	return Table{
		Title: "A new ListenerSet with a route, until the gateway answers 200", Columns: columns,
		Rows: []Row{row("of the same port as the Gateway's listener", len(columns))},
	}
}

// listenerSets adds ListenerSets while a route of the Gateway's own listener is in use.
func (g *gatewayWorld) listenerSets(ctx context.Context) error {
	requests, stop, err := g.traffic(ctx, "steady")
	if err != nil {
		return err
	}
	defer stop()
	times, n, failed := measure.NewDistribution(), g.scaled(gatewayListenerSets, 3), 0
	for i := range n {
		g.Progress("new ListenerSets", i, n)
		name := fmt.Sprintf("set-%d", i)
		added, err := objects(g.listenerSet(name))
		if err != nil {
			return err
		}
		written := time.Now()
		if err := g.c.plane.Apply(ctx, added...); err != nil {
			return err
		}
		errs, err := g.awaitRoute(ctx, hostOf(name, gatewayNamespace))
		if err != nil {
			return fmt.Errorf("ListenerSet %s: %w", name, err)
		}
		times.Add(time.Since(written))
		failed += errs
	}
	stop()
	g.tables[4].put(0, float64(n), times.Quantile(0.5).Seconds(), times.Quantile(1).Seconds(), float64(failed),
		float64(requests.failed))
	return nil
}

// listenerSet is a ListenerSet of the Gateway with one host, and the route of that host to the
// backends.
func (g *gatewayWorld) listenerSet(name string) string {
	_, port, _ := net.SplitHostPort(g.address)
	host := hostOf(name, gatewayNamespace)
	return joined(fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: %s, namespace: %s}
spec:
  parentRef: {name: bench}
  listeners:
  - {name: http, port: %s, protocol: HTTP, hostname: %s}`, name, gatewayNamespace, port, host),
		fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %s, namespace: %s}
spec:
  parentRefs: [{group: gateway.networking.k8s.io, kind: ListenerSet, name: %[1]s}]
  hostnames: [%[3]s]
  rules:
  - backendRefs: [{name: backend, port: %[4]d}]`, name, gatewayNamespace, host, backendPort))
}
