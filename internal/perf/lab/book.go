package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/source"
)

// The book's names.
const (
	shop, system = "istioinaction", "istio-system"
	// publishedDummies is how many Services, Gateways and VirtualServices there are, and reps how
	// many are created, one each bookPause.
	publishedDummies, reps = 200, 10
	bookPause              = 2500 * time.Millisecond
)

func bookLab() Lab {
	return Lab{
		Name:       "book",
		About:      "pushes for ten new services, as is, with a mesh-wide Sidecar, and with a longer debounce",
		Document:   "Istio in Action, chapter 11 (notes of 2023)",
		Reproduces: "the outputs of bin/performance-test.sh, and the sizes of a sidecar's configuration",
		Steps: []string{
			"12 sidecars (a catalog, a web application, ten idle workloads) and a gateway connect; there are 200 " +
				"Services, Gateways and VirtualServices",
			"ten more of these, one every 2.5 s",
			"the same with a Sidecar in istio-system that lets proxies see the control plane and the monitoring alone",
			"the same with PILOT_DEBOUNCE_AFTER=2500ms besides",
		},
		Scale:  1,
		tables: bookTables,
		run:    runBook,
	}
}

// bookSettings are the rows of the table: the book's steps.
type bookSetting struct {
	name, published, latency, size string
	scoped                         bool
	env                            []string
}

func bookSettings() []bookSetting {
	return []bookSetting{
		{name: "as is", published: "514", latency: "0.0990 s", size: "2.3 MB"},
		{name: "mesh-wide Sidecar", published: "70", latency: "0.0990 s", size: "516 kB", scoped: true},
		{
			name: "and debounce of 2.5 s", published: "63", latency: "0.0990 s", scoped: true,
			env: []string{"PILOT_DEBOUNCE_AFTER=2500ms"},
		},
	}
}

func bookTables() []Table {
	t := Table{Title: "Ten new services", Columns: []Column{
		{"push count", Count}, {"latency, p99", Seconds}, {"configuration of a sidecar", Bytes},
		{"write to last proxy, p99", Seconds}, {"bytes to all proxies", Bytes}, {"CPU", Seconds},
	}}
	for _, s := range bookSettings() {
		t.Rows = append(t.Rows, row(s.name, len(t.Columns), s.published, s.latency, s.size))
	}
	return []Table{t}
}

func runBook(ctx context.Context, r *run) error {
	for i, s := range bookSettings() {
		if err := r.book(ctx, i, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	r.note("The published size is that of a config_dump in JSON; ours is what came to a sidecar, in protobuf. " +
		"Latency is pilot_proxy_convergence_time, in which the debounce is not; istiod's buckets make 0.099 s of " +
		"anything below 0.1 s, and ours is of a native histogram. docs/book-lab.md has the same lab beside an " +
		"istiod of 2026.")
	return nil
}

// book runs the lab in one setting.
func (r *run) book(ctx context.Context, at int, s bookSetting) (err error) {
	mesh, pods, err := r.bookMesh(s.scoped)
	if err != nil {
		return err
	}
	c, err := r.open(ctx, mesh, s.env...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close(ctx)) }()
	for _, p := range pods {
		c.connect(p)
	}
	if err := c.awaitSync(ctx); err != nil {
		return err
	}
	before, err := c.sample(ctx)
	if err != nil {
		return err
	}
	written, err := r.bookChanges(ctx, c)
	if err != nil {
		return err
	}
	all := reps * len(pods)
	if s.scoped {
		all = reps // the gateway's
	}
	if err := r.await(ctx, s.name+": waiting for the last proxy", all, c.countArrived); err != nil {
		return err
	}
	after, err := c.sample(ctx)
	if err != nil {
		return err
	}
	last := c.latencies(func(i int) time.Time { return written[i] })
	r.tables[0].put(at, after.pushes(before), after.convergence(0.99, before),
		float64(before.totals.Received)/float64(len(pods)), last.Quantile(0.99).Seconds(),
		float64(after.totals.Received-before.totals.Received), after.cpu(before))
	return nil
}

// bookChanges creates ten services, and returns when each was written.
func (r *run) bookChanges(ctx context.Context, c *replica) (written []time.Time, err error) {
	var clusters []string
	for i := range reps {
		clusters = append(clusters, fmt.Sprintf("outbound|80||service-%03d.%s.", i, shop))
	}
	c.expect(clusters...)
	for i := range reps {
		if i > 0 {
			if err := r.pause(ctx, bookPause); err != nil {
				return nil, err
			}
		}
		r.Progress("creating services", i+1, reps)
		changes, err := objects(application(fmt.Sprintf("service-%03d", i)))
		if err != nil {
			return nil, err
		}
		written = append(written, time.Now())
		for _, ch := range changes { // one by one, as the book's script does
			if err := c.plane.Apply(ctx, ch); err != nil {
				return nil, err
			}
		}
	}
	return written, nil
}

// application is what the book creates at each step.
func application(name string) string {
	return joined(fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [%[1]s.istioinaction.io]}]`, name, shop),
		service(shop, name, "catalog", 80), fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  hosts: [%[1]s.istioinaction.io]
  gateways: [%[1]s]
  http: [{route: [{destination: {host: %[1]s.%[2]s.svc.cluster.local, port: {number: 80}}}]}]`, name, shop))
}

// service is a Service with ports for HTTP.
func service(namespace, name, app string, ports ...int) string {
	text := fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %s, namespace: %s}
spec:
  selector: {app: %s}
  ports:`, name, namespace, app)
	for i, p := range ports {
		text += fmt.Sprintf("\n  - {name: http-%d, port: %d}", i, p)
	}
	return text
}

// meshWideSidecar lets proxies see the control plane and the monitoring alone.
const meshWideSidecar = `apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: istio-system}
spec:
  egress: [{hosts: ["istio-system/*", "prometheus/*"]}]
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}`

// bookMesh returns what the book has deployed before it measures, and the pods with proxies.
func (r *run) bookMesh(scoped bool) ([]source.Change, []load.Pod, error) {
	var manifests []string
	for _, name := range []string{shop, system, "prometheus"} {
		manifests = append(manifests, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+name+"}")
	}
	if scoped {
		manifests = append(manifests, meshWideSidecar)
	}
	pods := []load.Pod{
		{
			Namespace: system, Name: "istio-ingressgateway-0", Router: true,
			Labels: map[string]string{"app": "istio-ingressgateway", "istio": "ingressgateway"},
		},
		{Namespace: shop, Name: "catalog-0", Labels: map[string]string{"app": "catalog"}},
		{Namespace: shop, Name: "webapp-0", Labels: map[string]string{"app": "webapp"}},
	}
	for i := range 10 {
		app := fmt.Sprintf("sleep-%d", i)
		pods = append(pods, load.Pod{Namespace: shop, Name: app + "-0", Labels: map[string]string{"app": app}})
	}
	for i := range r.scaled(publishedDummies, 1) {
		manifests = append(manifests, application(fmt.Sprintf("dummy-%03d", i)))
	}
	var slices []source.Change
	for i := range pods {
		p := &pods[i]
		p.Address, p.Node, p.ServiceAccount = fmt.Sprintf("10.1.0.%d", 1+i), "node-a", "default"
		manifests = append(manifests, service(p.Namespace, p.Labels["app"], p.Labels["app"], 80))
		slices = append(slices, podObject(*p, 80), sliceOf(p.Namespace, p.Labels["app"],
			map[string]int32{"http-0": 80}, *p))
	}
	mesh, err := objects(joined(manifests...))
	return append(mesh, slices...), pods, err
}
