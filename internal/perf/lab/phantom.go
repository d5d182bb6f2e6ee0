package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

// One of phantomPods dies after phantomBefore, and its endpoint is removed after phantomUnnoticed
// more. Requests go on for phantomAfter.
const (
	phantomPods      = 3
	phantomBefore    = time.Second
	phantomUnnoticed = 3 * time.Second
	phantomAfter     = time.Second
	phantomNamespace = "phantom"
)

func phantomLab() Lab {
	return Lab{
		Name:       "phantom",
		About:      "an endpoint dies: how long a proxy routes to it, and how many requests fail",
		Document:   "Istio in Action, chapters 11.1 and 6 (notes of 2023)",
		Reproduces: "phantom workloads, and what retries and outlier detection do about them",
		Steps: []string{
			"three pods of a service, and a real Envoy through which 200 requests a second go to them",
			"one pod dies without a word; three seconds later it is removed, with its endpoint",
			"without and with retries, without and with outlier detection",
		},
		Scale: 1, NeedsEnvoy: true,
		tables: phantomTables,
		run:    runPhantom,
	}
}

type phantomSetting struct {
	name             string
	retries, outlier bool
}

func phantomSettings() []phantomSetting {
	return []phantomSetting{
		{"neither", false, false},
		{"retries (2, Istio's default)", true, false},
		{"outlier detection (5 errors)", false, true},
		{"both", true, true},
	}
}

func phantomTables() []Table {
	t := Table{Title: "One of three endpoints dies", Columns: []Column{
		{"requests", Count}, {"failed", Count}, {"failed share", Percent}, {"attempts at the phantom", Count},
		{"routed to it for", Seconds}, {"removal to proxy", Seconds},
	}}
	for _, s := range phantomSettings() {
		t.Rows = append(t.Rows, row(s.name, len(t.Columns)))
	}
	return []Table{t}
}

func runPhantom(ctx context.Context, r *run) error {
	for i, s := range phantomSettings() {
		r.Progress(s.name, i, len(phantomSettings()))
		if err := r.phantom(ctx, i, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	r.note("The document has no figures. Connections to the dead pod are refused at once, as when a process " +
		"ends; one whose node is gone answers nothing, so that attempts end at connectTimeout. How long the " +
		"endpoint stays is what the cluster needs to notice (here three seconds); removal to proxy is what the " +
		"control plane adds to it.")
	return nil
}

// manifests returns the service, with the rules of a setting.
func (s phantomSetting) manifests() string {
	const host = "server." + phantomNamespace + ".svc.cluster.local"
	attempts := 0
	if s.retries {
		attempts = 2
	}
	all := []string{
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: " + phantomNamespace + "}",
		service(phantomNamespace, "server", "server", 80),
		fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: server, namespace: %s}
spec:
  hosts: [%s]
  http: [{route: [{destination: {host: %[2]s}}], retries: {attempts: %d}}]`, phantomNamespace, host, attempts),
	}
	if s.outlier {
		all = append(all, fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: server, namespace: %s}
spec:
  host: %s
  trafficPolicy: {outlierDetection: {consecutive5xxErrors: 5, baseEjectionTime: 30s, maxEjectionPercent: 100}}`,
			phantomNamespace, host))
	}
	return joined(all...)
}

// phantom lets a pod die in one setting.
func (r *run) phantom(ctx context.Context, at int, s phantomSetting) (err error) {
	port, err := freePort()
	if err != nil {
		return err
	}
	client := loopbackPod(phantomNamespace, "client", 0)
	pods, servers, err := phantomServers(port)
	defer func() {
		for _, server := range servers {
			err = errors.Join(err, server.Close())
		}
	}()
	if err != nil {
		return err
	}
	mesh, err := objects(s.manifests())
	if err != nil {
		return err
	}
	endpoints := func(of ...load.Pod) source.Change {
		return sliceOf(phantomNamespace, "server", map[string]int32{"http-0": int32(port)}, of...)
	}
	for _, p := range pods {
		mesh = append(mesh, podObject(p, int32(port)))
	}
	mesh = append(mesh, podObject(client, 80), endpoints(pods...))
	c, err := r.open(ctx, mesh)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close(ctx)) }()
	e, err := r.startEnvoy(ctx, c.plane.Address(), client, "")
	if err != nil {
		return err
	}
	defer e.stop()

	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := &phantomWatch{envoy: e, host: net.JoinHostPort(pods[0].Address, strconv.Itoa(int(port)))}
	requests := &steadyRequests{
		url: "http://server." + phantomNamespace + ".svc.cluster.local/",
		transport: &http.Transport{
			Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: e.proxy}),
		},
	}
	var running sync.WaitGroup
	running.Go(func() { watch.run(watched) })
	running.Go(func() { requests.run(watched) })
	defer running.Wait()
	defer cancel()
	if err := r.pause(ctx, phantomBefore); err != nil {
		return err
	}
	died := time.Now()
	if err := servers[0].Close(); err != nil {
		return err
	}
	if err := r.pause(ctx, phantomUnnoticed); err != nil {
		return err
	}
	removed := time.Now()
	// An endpoint whose Pod runs on is kept for a while, since it may be on its way to another
	// slice.
	gone := podObject(pods[0], int32(port)).Key
	err = c.plane.Apply(ctx, endpoints(pods[1:]...), memory.Delete(gone.Kind, gone.Namespace, gone.Name))
	if err != nil {
		return err
	}
	err = r.await(ctx, "waiting for the removal", 1, func() int { return watch.isGone() })
	if err != nil {
		return err
	}
	if err := r.pause(ctx, phantomAfter); err != nil {
		return err
	}
	cancel()
	running.Wait()
	watch.fill(&r.tables[0], at, phantomTimes{died, removed}, requests)
	return nil
}

// phantomServers starts the pods' servers.
func phantomServers(port uint16) (pods []load.Pod, servers []*http.Server, err error) {
	for i := range phantomPods {
		p := loopbackPod(phantomNamespace, "server", 10+i)
		l, err := net.Listen("tcp", net.JoinHostPort(p.Address, strconv.Itoa(int(port))))
		if err != nil {
			return pods, servers, err
		}
		server := &http.Server{
			Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), // 200
			ReadHeaderTimeout: 10 * time.Second,
		}
		go func() { _ = server.Serve(l) }() // until it is closed
		pods, servers = append(pods, p), append(servers, server)
	}
	return pods, servers, nil
}

type phantomTimes struct{ died, removed time.Time }

// phantomWatch looks at what an Envoy says of one endpoint.
type phantomWatch struct {
	envoy *envoy
	host  string // address and port

	mu       sync.Mutex
	attempts int
	last     time.Time // when attempts grew
	goneAt   time.Time
}

func (w *phantomWatch) run(ctx context.Context) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		if body, err := w.envoy.get(ctx, "/clusters"); err == nil {
			w.see(body, time.Now())
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// see reads lines as "outbound|80||server…::127.32.7.11:8080::cx_connect_fail::3".
func (w *phantomWatch) see(body string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	there := false
	for line := range strings.Lines(body) {
		_, rest, ok := strings.Cut(line, "::"+w.host+"::")
		if !ok {
			continue
		}
		there = true
		name, value, _ := strings.Cut(strings.TrimSpace(rest), "::")
		if n, err := strconv.Atoi(value); name == "cx_connect_fail" && err == nil && n > w.attempts {
			w.attempts, w.last = n, now
		}
	}
	if !there && w.goneAt.IsZero() {
		w.goneAt = now
	}
}

// isGone returns 1 when the proxy has the endpoint no more.
func (w *phantomWatch) isGone() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.goneAt.IsZero() {
		return 0
	}
	return 1
}

func (w *phantomWatch) fill(t *Table, at int, times phantomTimes, requests *steadyRequests) {
	w.mu.Lock()
	defer w.mu.Unlock()
	routed := 0.0
	if w.attempts > 0 {
		routed = w.last.Sub(times.died).Seconds()
	}
	share := 100 * float64(requests.failed) / max(1, float64(requests.sent))
	t.put(at, float64(requests.sent), float64(requests.failed), share, float64(w.attempts), routed,
		w.goneAt.Sub(times.removed).Seconds())
}
