package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

// Cluster is where a lab measures what only an API server shows.
type Cluster struct {
	// Kubeconfig is a file that leads to an API server with the definitions of the Gateway API.
	// Empty: what needs one is left out.
	Kubeconfig string
	// Serve is the command of a Lateen that serves a cluster, without flags: "lateen serve".
	Serve []string
	// Run is a shell command that runs another control plane of the cluster, which is measured
	// before Lateen, and Target where that serves xDS, host:port. Both are empty for none.
	Run, Target string
}

const (
	// attachedNamespace has the Gateway that routes are attached to. It is deleted at the end, as
	// all namespaces with the prefix are.
	attachedNamespace = load.Prefix + "gateway"
	// attachedCalm is how long after the last write updates of the Gateway's status are counted.
	attachedCalm = 3 * time.Second
	// attachedTable is the place of attachedRoutesTable.
	attachedTable = 5
)

// attachedRoutesTable is the table of attached routes. Another control plane has rows of its own.
func attachedRoutesTable() Table {
	return Table{
		Title:   "Routes attach, until the Gateway's status counts them",
		Columns: attachedColumns(), Rows: attachedRows("lateen"),
	}
}

func attachedColumns() []Column {
	return []Column{
		{"routes", Count}, {"written in", Seconds}, {"right after the last write", Seconds},
		{"updates of the Gateway's status", Count},
	}
}

func attachedRows(name string) []Row {
	n := len(attachedColumns())
	return []Row{row(name+": added", n), row(name+": removed", n)}
}

// countAttached has routes come and go in an API server, with one control plane after the other.
func (r *run) countAttached(ctx context.Context) error {
	if r.Cluster.Kubeconfig == "" {
		r.note("Attached routes are counted in the status of a Gateway, which takes an API server: " +
			"lateen perf gateway --kubeconfig FILE.")
		return nil
	}
	cluster, err := controlplane.OpenCluster(r.Cluster.Kubeconfig)
	if err != nil {
		return err
	}
	if r.Cluster.Run != "" {
		other := controlplane.External{Cluster: cluster, Keep: true}.Run(
			controlplane.Shell(r.Cluster.Run), r.Cluster.Target, nil,
		)
		rows := &r.tables[attachedTable].Rows
		at := len(*rows)
		*rows = append(*rows, attachedRows(other.Describe(ctx).Name)...)
		if err := r.attach(ctx, other, at); err != nil {
			return err
		}
	}
	command, target, err := r.Cluster.command(attachedNamespace)
	if err != nil {
		return err
	}
	return r.attach(ctx, controlplane.External{Cluster: cluster, Name: "lateen"}.Run(command, target, nil), 0)
}

// command returns the command of a Lateen that writes the statuses of the cluster, and where that
// serves xDS. The namespace exists, and gets what Lateen writes.
func (c Cluster) command(namespace string) (command []string, target string, err error) {
	var addresses [2]string
	for i := range addresses {
		port, err := freePort()
		if err != nil {
			return nil, "", err
		}
		addresses[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
	}
	return slices.Concat(c.Serve, []string{
		"--kubeconfig", c.Kubeconfig, "--write", "--namespace", namespace,
		"--xds-address", addresses[0], "--monitoring-address", addresses[1],
	}), addresses[0], nil
}

// attach measures one control plane, and fills two rows.
func (r *run) attach(ctx context.Context, plane *controlplane.External, at int) (err error) {
	spaces, each := r.gatewayRoutes()
	mesh, err := attachedMesh(spaces)
	if err != nil {
		return err
	}
	r.Progress("starting the control plane", 0, 0)
	if err := plane.Start(ctx, mesh); err != nil {
		return errors.Join(err, plane.Close(context.WithoutCancel(ctx)))
	}
	defer func() { err = errors.Join(err, plane.Close(context.WithoutCancel(ctx))) }()
	count := &attachedCount{}
	stop, err := plane.Cluster.Watch(ctx, source.Key{
		Kind: kinds.KubernetesGateway, Namespace: attachedNamespace, Name: "bench",
	}, count.observe)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	routes, err := attachedRoutes(spaces, each)
	if err != nil {
		return err
	}
	gone := make([]source.Change, 0, len(routes))
	for _, c := range routes {
		gone = append(gone, memory.Delete(routeKind, c.Key.Namespace, c.Key.Name))
	}
	// Who writes statuses first gets a Lease.
	for _, first := range [][]source.Change{routes[:1], gone[:1]} {
		if _, err := r.attachAll(ctx, plane, count, first); err != nil {
			return err
		}
	}
	for i, changes := range [][]source.Change{routes, gone} {
		figures, err := r.attachAll(ctx, plane, count, changes)
		if err != nil {
			return err
		}
		r.tables[attachedTable].put(at+i, figures...)
	}
	return nil
}

// attachAll writes changes of routes, and returns the figures of a row.
func (r *run) attachAll(
	ctx context.Context, plane *controlplane.External, count *attachedCount, changes []source.Change,
) ([]float64, error) {
	want := 0
	if changes[0].Object != nil {
		want = len(changes)
	}
	count.begin(want)
	began := time.Now()
	if err := plane.Apply(ctx, changes...); err != nil {
		return nil, err
	}
	written := time.Now()
	if err := r.await(ctx, "routes attach", len(changes), func() int { return count.done(len(changes)) }); err != nil {
		return nil, err
	}
	if err := r.pause(ctx, attachedCalm); err != nil {
		return nil, err
	}
	right, updates := count.result()
	return []float64{
		float64(len(changes)), written.Sub(began).Seconds(), max(0, right.Sub(written).Seconds()), float64(updates),
	}, nil
}

// attachedCount looks at the status of the Gateway. It is safe for concurrent use.
type attachedCount struct {
	mu      sync.Mutex
	status  string // as it was seen last
	has     int    // routes
	updates int    // since begin
	want    int
	right   time.Time // since when the status has as many routes as are wanted
}

// begin starts to count anew, until the status says so many routes.
func (c *attachedCount) begin(want int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.want, c.updates, c.right = want, 0, time.Time{}
}

// observe looks at the Gateway. Changes that leave its status as it was do not count.
func (c *attachedCount) observe(o *unstructured.Unstructured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	text := fmt.Sprint(status) // sorted by key
	if text == c.status {
		return
	}
	c.status = text
	c.updates++
	c.has = 0
	listeners, _, _ := unstructured.NestedSlice(status, "listeners")
	for _, l := range listeners {
		if of, ok := l.(map[string]any); ok {
			n, _, _ := unstructured.NestedInt64(of, "attachedRoutes")
			c.has += int(n)
		}
	}
	switch {
	case c.has != c.want:
		c.right = time.Time{}
	case c.right.IsZero():
		c.right = time.Now()
	}
}

// done returns how many of so many changes the status has.
func (c *attachedCount) done(all int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return all - min(all, max(c.want-c.has, c.has-c.want))
}

func (c *attachedCount) result() (right time.Time, updates int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.right, c.updates
}

func attachedSpace(n int) string { return fmt.Sprintf("%s-%02d", attachedNamespace, n) }

// attachedMesh is the Gateway, whose workloads nobody runs, and the Services that routes lead to.
func attachedMesh(spaces int) ([]source.Change, error) {
	manifests := []string{
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: " + attachedNamespace + "}",
		service(attachedNamespace, "entry", "entry", backendPort),
		fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: bench, namespace: %s}
spec:
  gatewayClassName: istio
  addresses: [{type: Hostname, value: entry}]
  listeners:
  - {name: http, port: %d, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}`, attachedNamespace, backendPort),
	}
	for s := range spaces {
		manifests = append(manifests, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+attachedSpace(s)+"}",
			service(attachedSpace(s), "app", "app", backendPort))
	}
	return objects(joined(manifests...))
}

// attachedRoutes are routes of the Gateway, each for a host of its own.
func attachedRoutes(spaces, each int) ([]source.Change, error) {
	var manifests []string
	for s := range spaces {
		for n := range each {
			manifests = append(manifests, fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: route-%d, namespace: %s}
spec:
  hostnames: [route-%[1]d.%[2]s.example.com]
  parentRefs: [{name: bench, namespace: %[3]s}]
  rules: [{backendRefs: [{name: app, port: %[4]d}]}]`, n, attachedSpace(s), attachedNamespace, backendPort))
		}
	}
	return objects(joined(manifests...))
}
