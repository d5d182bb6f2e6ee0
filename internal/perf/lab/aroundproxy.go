package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/lateen-mesh/lateen/internal/source"
)

const (
	proxyNamespace = "proxies"
	// proxyServices is how many services a proxy sees at most.
	proxyServices = 1000
	// proxyRequests are sent to proxyTargets of the services.
	proxyRequests, proxyTargets = 5000, 50
)

// proxyStep is a row: what a proxy has.
type proxyStep struct {
	name string
	// services is the share of the services that there are, or less than 0 for a proxy without a
	// control plane.
	services          float64
	metrics, requests bool
	published         []string
}

func proxySteps() []proxyStep {
	return []proxyStep{
		{name: "Envoy alone, one listener", services: -1},
		{name: "connected, one service"},
		{
			name: "the same, Istio's metrics, after 5,000 requests", metrics: true, requests: true,
			published: []string{"", "72 MB", "", "22 to 24 MiB"},
		},
		{name: "a tenth of the services", services: 0.1},
		{name: "all services", services: 1},
		{name: "the same, Istio's metrics", services: 1, metrics: true},
		{name: "after 5,000 requests to 50 services", services: 1, metrics: true, requests: true},
	}
}

func proxyTableOf() Table {
	t := Table{Title: "A proxy's memory", Columns: []Column{
		{"services", Count}, {"resident (RSS)", Bytes}, {"of it the program's pages", Bytes},
		{"of it the proxy's own", Bytes}, {"beside another proxy (PSS)", Bytes}, {"heap in use", Bytes},
		{"of it Lateen's configuration", Bytes},
	}}
	for _, s := range proxySteps() {
		t.Rows = append(t.Rows, row(s.name, len(t.Columns), s.published...))
	}
	return t
}

// measureProxy fills the table of a proxy's memory.
func (r *run) measureProxy(ctx context.Context) (err error) {
	// The other proxy of the node, which shares the program's pages.
	other, err := r.bareEnvoy(ctx)
	if err != nil {
		return err
	}
	defer other.stop()
	alone := 0.0
	for i, s := range proxySteps() {
		r.Progress(s.name, i, len(proxySteps()))
		figures, err := r.proxyStep(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		used := figures[len(figures)-1]
		if i == 0 {
			alone = used
		}
		r.tables[proxyTable].put(i, append(figures, max(0, used-alone))...)
	}
	r.note("A proxy's memory: most of what is resident are pages of Envoy's program, which the kernel has once for " +
		"all proxies of a node, and drops when memory is short. A proxy's own are its heap and stacks. The 72 MB are " +
		"AKS's, with two workers where ours has one. The 22 to 24 MiB are KubeCon's, by kubectl top, which leaves " +
		"out pages of files that are not in use, of an Envoy of 2019. Lateen's configuration is what Envoy makes of " +
		"it: the heap in use, less that of Envoy alone.")
	return nil
}

// proxyStep returns the figures of a row up to the heap.
func (r *run) proxyStep(ctx context.Context, s proxyStep) (figures []float64, err error) {
	if s.services < 0 {
		return r.proxyAlone(ctx)
	}
	backend, err := net.Listen("tcp", net.JoinHostPort(loopbackPod(proxyNamespace, "server", 40).Address, "0"))
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), // 200
		ReadHeaderTimeout: 10 * time.Second,
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	go func() { _ = server.Serve(backend) }() // until it is closed
	services := max(1, int(s.services*float64(min(proxyServices, r.scaled(20*proxyServices, 10)))))
	mesh, err := proxyMesh(services, backend.Addr().(*net.TCPAddr).Port, s.metrics)
	if err != nil {
		return nil, err
	}
	c, err := r.open(ctx, mesh)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close(ctx)) }()
	e, err := r.meteredEnvoy(ctx, c.plane.Address(), s.metrics)
	if err != nil {
		return nil, err
	}
	defer e.stop()
	if s.requests {
		if err := e.sendToServices(ctx, services); err != nil {
			return nil, err
		}
	}
	return e.memory(ctx, services)
}

// proxyAlone returns the figures of a proxy without a control plane.
func (r *run) proxyAlone(ctx context.Context) (figures []float64, err error) {
	e, err := r.bareEnvoy(ctx)
	if err != nil {
		return nil, err
	}
	defer e.stop()
	return e.memory(ctx, 0)
}

// proxyMesh is a mesh of services, which lead to one server.
func proxyMesh(services, port int, metrics bool) ([]source.Change, error) {
	providers := ""
	if metrics {
		providers = "prometheus"
	}
	manifests := []string{
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, namespace: istio-system}\n" +
			"data: {mesh: 'defaultProviders: {metrics: [" + providers + "]}'}",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: " + proxyNamespace + "}",
	}
	for i := range services {
		manifests = append(manifests, service(proxyNamespace, proxyService(i), "server", 80))
	}
	mesh, err := objects(joined(manifests...))
	if err != nil {
		return nil, err
	}
	at := int32(port)
	server, client := loopbackPod(proxyNamespace, "server", 40), loopbackPod(proxyNamespace, "client", 41)
	mesh = append(mesh, podObject(server, at), podObject(client, 80))
	for i := range services {
		mesh = append(mesh, sliceOf(proxyNamespace, proxyService(i), map[string]int32{"http-0": at}, server))
	}
	return mesh, nil
}

func proxyService(n int) string { return fmt.Sprintf("service-%04d", n) }

// meteredEnvoy starts the client's proxy, with Istio's metrics or without.
func (r *run) meteredEnvoy(ctx context.Context, xds string, metrics bool) (*envoy, error) {
	admin, err := freePort()
	if err != nil {
		return nil, err
	}
	pod := loopbackPod(proxyNamespace, "client", 41)
	config, err := bootstrap(xds, admin, pod, metrics)
	if err != nil {
		return nil, err
	}
	return r.runEnvoy(ctx, envoyConfig{pod: pod, admin: admin, bootstrap: config})
}

// bareEnvoy starts an Envoy with one listener and no control plane.
func (r *run) bareEnvoy(ctx context.Context) (*envoy, error) {
	admin, err := freePort()
	if err != nil {
		return nil, err
	}
	pod := loopbackPod(proxyNamespace, "bare", 42)
	const types = "type.googleapis.com/envoy.extensions.filters."
	at := func(port uint16) map[string]any {
		return socket(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port))
	}
	manager := map[string]any{
		"@type": types + "network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "bare",
		"route_config": map[string]any{"virtual_hosts": []any{map[string]any{
			"name": "all", "domains": []string{"*"}, "routes": []any{map[string]any{
				"match": map[string]any{"prefix": "/"}, "direct_response": map[string]any{"status": http.StatusOK},
			}},
		}}},
		"http_filters": []any{map[string]any{
			"name": "router", "typed_config": map[string]any{"@type": types + "http.router.v3.Router"},
		}},
	}
	config, err := json.Marshal(map[string]any{
		"admin": map[string]any{"address": at(admin)},
		"static_resources": map[string]any{"listeners": []any{map[string]any{
			"name": "bare", "address": at(0), "filter_chains": []any{map[string]any{
				"filters": []any{map[string]any{"name": "http", "typed_config": manager}},
			}},
		}}},
	})
	if err != nil {
		return nil, err
	}
	return r.runEnvoy(ctx, envoyConfig{pod: pod, admin: admin, bootstrap: config})
}

// memory returns the figures of an Envoy's memory.
func (e *envoy) memory(ctx context.Context, services int) ([]float64, error) {
	body, err := e.get(ctx, "/memory")
	if err != nil {
		return nil, err
	}
	var heap struct {
		Allocated string `json:"allocated"`
	}
	if err := json.Unmarshal([]byte(body), &heap); err != nil {
		return nil, fmt.Errorf("/memory of Envoy: %w", err)
	}
	used, err := strconv.ParseFloat(heap.Allocated, 64)
	if err != nil {
		return nil, fmt.Errorf("/memory of Envoy: allocated: %w", err)
	}
	m, err := e.pid().Memory()
	return []float64{
		float64(services), float64(m.Resident), float64(m.File), float64(m.Anonymous), float64(m.Proportional), used,
	}, err
}

// sendToServices sends requests through a proxy, to one service after the other.
func (e *envoy) sendToServices(ctx context.Context, services int) error {
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: e.proxy})}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	for i := range proxyRequests {
		host := proxyService(i%min(services, proxyTargets)) + "." + proxyNamespace + ".svc.cluster.local"
		if err := get(ctx, client, "http://"+host+"/"); err != nil {
			return fmt.Errorf("a request to %s: %w", host, err)
		}
	}
	names, err := e.get(ctx, "/stats?filter=istio_request")
	if err == nil && names == "" {
		err = errors.New("the proxy keeps none of Istio's metrics")
	}
	return err
}
