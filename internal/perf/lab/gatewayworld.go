package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/source"
)

const (
	gatewayNamespace = "gateway-bench"
	gatewayBackends  = 3
	// backendPort is the first of the two ports of the Service of the backends.
	backendPort = 80
	routeKind   = kinds.HTTPRoute
)

// gatewayWorld is a control plane with a real Envoy as a gateway, and backends behind it.
type gatewayWorld struct {
	*run
	c        *replica
	envoy    *envoy
	backends []*backend
	client   *http.Client
	// address is where the gateway takes requests.
	address string
}

// backend is a server that is there twice, as two ports of a pod.
type backend struct {
	address string // of the first port
	both    [2]string
	servers []*http.Server
}

func (b *backend) open() error {
	for _, address := range b.both {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		server := &http.Server{
			Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), // 200
			ReadHeaderTimeout: 10 * time.Second,
		}
		go func() { _ = server.Serve(l) }() // until it is closed
		b.servers = append(b.servers, server)
	}
	return nil
}

func (b *backend) close() (err error) {
	for _, s := range b.servers {
		err = errors.Join(err, s.Close())
	}
	b.servers = nil
	return err
}

// gatewayPorts are those that the gateway and each backend listen at.
type gatewayPorts struct {
	entry   uint16
	backend [2]uint16
}

func freeGatewayPorts() (p gatewayPorts, err error) {
	for _, port := range []*uint16{&p.entry, &p.backend[0], &p.backend[1]} {
		if *port, err = freePort(); err != nil {
			return p, err
		}
	}
	return p, nil
}

// openGateway starts everything, with the routes that are in use later.
func (r *run) openGateway(ctx context.Context) (_ *gatewayWorld, err error) {
	g := &gatewayWorld{run: r}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close(ctx))
		}
	}()
	ports, err := freeGatewayPorts()
	if err != nil {
		return g, err
	}
	gateway := loopbackPod(gatewayNamespace, "entry", 20)
	gateway.Router = true
	mesh, err := objects(gatewayManifests(int(ports.entry)))
	if err != nil {
		return g, err
	}
	mesh = append(mesh, podObject(gateway, int32(ports.entry)),
		sliceOf(gatewayNamespace, "entry", map[string]int32{"http-0": int32(ports.entry)}, gateway))
	backends, err := g.openBackends(ports)
	if err != nil {
		return g, err
	}
	if g.c, err = r.open(ctx, append(mesh, backends...)); err != nil {
		return g, err
	}
	if g.envoy, err = r.startEnvoy(ctx, g.c.plane.Address(), gateway, ""); err != nil {
		return g, err
	}
	g.address = net.JoinHostPort(gateway.Address, strconv.Itoa(int(ports.entry)))
	g.client = &http.Client{Transport: g.transport(), Timeout: 5 * time.Second}
	_, err = g.awaitRoute(ctx, hostOf("steady", gatewayNamespace))
	return g, err
}

// openBackends starts the backends, and returns their objects and the routes to them.
func (g *gatewayWorld) openBackends(ports gatewayPorts) (mesh []source.Change, err error) {
	var pods []load.Pod
	for i := range gatewayBackends {
		pod := loopbackPod(gatewayNamespace, "backend", 21+i)
		b := &backend{}
		for j, port := range ports.backend {
			b.both[j] = net.JoinHostPort(pod.Address, strconv.Itoa(int(port)))
		}
		b.address = b.both[0]
		g.backends, pods = append(g.backends, b), append(pods, pod)
		if err := b.open(); err != nil {
			return nil, err
		}
		mesh = append(mesh, podObject(pod, int32(ports.backend[0])))
	}
	mesh = append(mesh, sliceOf(gatewayNamespace, "backend", map[string]int32{
		"http-0": int32(ports.backend[0]), "http-1": int32(ports.backend[1]),
	}, pods...))
	for _, name := range []string{"steady", "changing"} {
		change, err := routeChange(gatewayNamespace, name, "backend", backendPort, false)
		if err != nil {
			return nil, err
		}
		mesh = append(mesh, change)
	}
	return mesh, nil
}

// close ends what was started.
func (g *gatewayWorld) close(ctx context.Context) (err error) {
	if g.client != nil {
		g.client.CloseIdleConnections()
	}
	if g.envoy != nil {
		g.envoy.stop()
	}
	if g.c != nil {
		err = errors.Join(err, g.c.close(ctx))
	}
	for _, b := range g.backends {
		err = errors.Join(err, b.close())
	}
	return err
}

// transport leads to the gateway, whatever host a request is for.
func (g *gatewayWorld) transport() *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", g.address)
	}}
}

// addRoute adds a route to the backends, and returns when it is there.
func (g *gatewayWorld) addRoute(ctx context.Context, namespace, name string) error {
	added, err := routeChange(namespace, name, "backend", backendPort, false)
	if err != nil {
		return err
	}
	if err := g.c.plane.Apply(ctx, added); err != nil {
		return err
	}
	_, err = g.awaitRoute(ctx, hostOf(name, namespace))
	return err
}

// traffic sends requests to a route of the gateway's namespace until stop, which may be called
// again.
func (g *gatewayWorld) traffic(ctx context.Context, route string) (*steadyRequests, func(), error) {
	host := hostOf(route, gatewayNamespace)
	if _, err := g.awaitRoute(ctx, host); err != nil {
		return nil, nil, err
	}
	requests := &steadyRequests{url: "http://" + host + "/", transport: g.transport()}
	running, cancel := context.WithCancel(ctx)
	var sending sync.WaitGroup
	sending.Go(func() { requests.run(running) })
	return requests, func() { cancel(); sending.Wait() }, nil
}

// connectFailures counts the attempts at the first backend that have failed so far.
func (g *gatewayWorld) connectFailures(ctx context.Context) (n float64, err error) {
	body, err := g.envoy.get(ctx, "/clusters")
	for line := range strings.Lines(body) {
		if _, value, ok := strings.Cut(line, "::"+g.backends[0].address+"::cx_connect_fail::"); ok {
			count, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			n += count
		}
	}
	return n, err
}

// statusOf returns the status of an answer.
func statusOf(ctx context.Context, client *http.Client, url string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Body.Close()
}

// hostOf is the host of a route.
func hostOf(name, namespace string) string { return name + "." + namespace + ".example.com" }

// appSpace is the name of a namespace of many routes.
func appSpace(n int) string { return fmt.Sprintf("gateway-bench-%02d", n) }

// gatewayManifests are the Gateway, and the Services of its workload and of the backends.
func gatewayManifests(port int) string {
	return joined(
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: "+gatewayNamespace+"}",
		service(gatewayNamespace, "entry", "entry", port),
		service(gatewayNamespace, "backend", "backend", backendPort, backendPort+1),
		fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: bench, namespace: %s}
spec:
  gatewayClassName: istio
  addresses: [{type: Hostname, value: entry}]
  allowedListeners: {namespaces: {from: Same}}
  listeners:
  - {name: http, port: %d, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}`, gatewayNamespace, port))
}

// routeChange is a route of the gateway to a service of its namespace, by its host alone.
func routeChange(namespace, name, service string, port int, filtered bool) (source.Change, error) {
	filter := ""
	if filtered {
		filter = "\n    filters: [{type: ResponseHeaderModifier, " +
			"responseHeaderModifier: {add: [{name: changed, value: 'yes'}]}}]"
	}
	all, err := objects(fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %s, namespace: %s}
spec:
  hostnames: [%s]
  parentRefs: [{name: bench, namespace: %s}]
  rules:
  - backendRefs: [{name: %s, port: %d}]%s`, name, namespace, hostOf(name, namespace), gatewayNamespace, service, port,
		filter))
	if err != nil {
		return source.Change{}, err
	}
	return all[0], nil
}

func outlierDetection(host string) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: backend, namespace: %s}
spec:
  host: %s
  trafficPolicy: {outlierDetection: {consecutive5xxErrors: 5, baseEjectionTime: 30s, maxEjectionPercent: 100}}`,
		gatewayNamespace, host)
}

// appPod is the pod of a service with a route. No request reaches it.
func appPod(space, n, generation int) load.Pod {
	return load.Pod{
		Namespace: appSpace(space), Name: fmt.Sprintf("app-%d", n), Node: "node-a", ServiceAccount: "default",
		Address: fmt.Sprintf("10.%d.%d.%d", 100+space, n, 1+generation%250),
		Labels:  map[string]string{"app": fmt.Sprint("app-", n)},
	}
}

// gatewayApps are namespaces with services of a pod and a route each.
func gatewayApps(spaces, each int) (all []source.Change, err error) {
	var manifests []string
	for s := range spaces {
		manifests = append(manifests, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+appSpace(s)+"}")
		for n := range each {
			app := fmt.Sprint("app-", n)
			manifests = append(manifests, service(appSpace(s), app, app, backendPort))
			pod := appPod(s, n, 0)
			all = append(all, podObject(pod, backendPort),
				sliceOf(appSpace(s), app, map[string]int32{"http-0": backendPort}, pod))
			route, err := routeChange(appSpace(s), app, app, backendPort, false)
			if err != nil {
				return nil, err
			}
			all = append(all, route)
		}
	}
	services, err := objects(joined(manifests...))
	return append(services, all...), err
}

// gatewayChurn changes one route and one pod at a time.
type gatewayChurn struct {
	world        *gatewayWorld
	spaces, each int
	done         atomic.Int64
	err          error // once run has returned
}

func (c *gatewayChurn) run(ctx context.Context) {
	for at := 0; ctx.Err() == nil; at++ {
		if c.err = c.change(ctx, at); c.err != nil {
			return
		}
		if c.world.pause(ctx, gatewayChurnPause) != nil {
			return // the lab goes on to its next step
		}
	}
}

func (c *gatewayChurn) change(ctx context.Context, at int) error {
	space, n := at%c.spaces, at/c.spaces%c.each
	app := fmt.Sprint("app-", n)
	route, err := routeChange(appSpace(space), app, app, backendPort, at/(c.spaces*c.each)%2 == 0)
	if err != nil {
		return err
	}
	pod := appPod(space, n, 1+at)
	err = c.world.c.plane.Apply(ctx, route, podObject(pod, backendPort),
		sliceOf(appSpace(space), app, map[string]int32{"http-0": backendPort}, pod))
	if err == nil {
		c.done.Add(2)
	}
	return err
}
