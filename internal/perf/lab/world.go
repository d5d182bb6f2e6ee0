package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

// replica is a control plane with the simulated sidecars that are connected to it.
type replica struct {
	r     *run
	plane *controlplane.InMemory
	fleet perf.Fleet

	mu sync.Mutex
	// marks are what the lab waits for: mark n+1 is marks[n], a part of the name of a cluster.
	marks []string
	// arrived has the time at which each pod had each mark.
	arrived map[uint64]map[string]time.Time
	// waiting are the pods that are not in sync, since when, and ready how long the others took.
	waiting map[string]time.Time
	ready   *measure.Distribution
	stops   map[string]func()
}

// open starts a control plane with a mesh. The settings are environment variables.
func (r *run) open(ctx context.Context, mesh []source.Change, settings ...string) (*replica, error) {
	return r.openPlane(ctx, mesh, r.plane(settings...))
}

// openPlane does the same with a control plane that is not started yet.
func (r *run) openPlane(ctx context.Context, mesh []source.Change, plane *controlplane.InMemory) (*replica, error) {
	c := &replica{
		r: r, plane: plane, arrived: map[uint64]map[string]time.Time{},
		waiting: map[string]time.Time{}, ready: measure.NewDistribution(), stops: map[string]func(){},
	}
	r.Progress("starting the control plane", 0, 0)
	err := c.plane.Start(ctx, mesh)
	if err == nil {
		fleet := perf.Simulated{Log: slog.New(slog.DiscardHandler)}
		c.fleet, err = fleet.Fleet(c.plane.Address(), perf.Hooks{
			Classify: c.classify, Arrived: c.arrive, Synced: c.synced,
		})
	}
	if err != nil {
		return nil, errors.Join(err, c.plane.Close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// close ends the sidecars and the control plane, also when the context has ended.
func (c *replica) close(ctx context.Context) error {
	c.fleet.Close()
	return c.plane.Close(context.WithoutCancel(ctx))
}

func (c *replica) classify(_, name string, _ []byte) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, m := range c.marks {
		if strings.HasPrefix(name, m) {
			return uint64(i) + 1
		}
	}
	return 0
}

func (c *replica) arrive(pod string, mark uint64, removed bool, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if removed {
		return
	}
	if c.arrived[mark] == nil {
		c.arrived[mark] = map[string]time.Time{}
	}
	if _, known := c.arrived[mark][pod]; !known {
		c.arrived[mark][pod] = at
	}
}

func (c *replica) synced(pod string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since, ok := c.waiting[pod]; ok {
		delete(c.waiting, pod)
		c.ready.Add(at.Sub(since))
	}
}

// connect starts the proxy of a pod.
func (c *replica) connect(pod load.Pod) {
	c.mu.Lock()
	c.waiting[pod.Name] = time.Now()
	c.mu.Unlock()
	c.stops[pod.Name] = c.fleet.Start(pod)
}

// disconnect ends the proxy of a pod.
func (c *replica) disconnect(pod string) {
	c.stops[pod]()
	delete(c.stops, pod)
	c.mu.Lock()
	delete(c.waiting, pod)
	c.mu.Unlock()
}

// expect makes the names of clusters known that will come. It is called before the change.
func (c *replica) expect(clusters ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks, c.arrived = clusters, map[uint64]map[string]time.Time{}
}

// countArrived returns how many clusters have arrived, each counted for each pod.
func (c *replica) countArrived() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pods := range c.arrived {
		n += len(pods)
	}
	return n
}

// latencies returns the times from when each cluster was written until each pod had it.
func (c *replica) latencies(written func(cluster int) time.Time) *measure.Distribution {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := measure.NewDistribution()
	for mark, pods := range c.arrived {
		for _, at := range pods {
			d.Add(at.Sub(written(int(mark) - 1)))
		}
	}
	return d
}

func (c *replica) countWaiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// takeReady returns the times to sync since the last call.
func (c *replica) takeReady() *measure.Distribution {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.ready
	c.ready = measure.NewDistribution()
	return d
}

// poll is the pause between two looks at something that is awaited.
const poll = 20 * time.Millisecond

// await waits until done returns all. It fails if done returns the same number for
// Options.Patience.
func (r *run) await(ctx context.Context, what string, all int, done func() int) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	moved := time.Now()
	for last := -1; ; {
		n := done()
		if n >= all {
			r.Progress(what, all, all)
			return nil
		}
		if n != last {
			last, moved = n, time.Now()
		}
		if time.Since(moved) > r.Patience {
			return fmt.Errorf("%s: nothing has happened for %v: %d of %d are done", what, r.Patience, n, all)
		}
		r.Progress(what, n, all)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitSync waits until all connected proxies have what they ask for.
func (c *replica) awaitSync(ctx context.Context) error {
	all := len(c.stops)
	return c.r.await(ctx, "connecting", all, func() int { return all - c.countWaiting() })
}

// settle waits until nothing has been sent or received for a while.
func (c *replica) settle(ctx context.Context) error {
	last, since := c.fleet.Totals(), time.Now()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for time.Since(since) < calm {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if t := c.fleet.Totals(); t != last {
			last, since = t, time.Now()
		}
	}
	return nil
}

// sample is what a control plane had done and used at one time.
type sample struct {
	metrics measure.Metrics
	usage   measure.Usage
	totals  perf.Totals
	at      time.Time
}

func (c *replica) sample(ctx context.Context) (sample, error) {
	if err := c.settle(ctx); err != nil {
		return sample{}, err
	}
	m, err := c.plane.Metrics(ctx)
	if err != nil {
		return sample{}, err
	}
	u, err := c.plane.Usage(ctx)
	return sample{m, u, c.fleet.Totals(), time.Now()}, err
}

const (
	pushes      = "pilot_xds_pushes"
	convergence = "pilot_proxy_convergence_time"
)

// pushes returns how many responses were sent since an earlier sample.
func (s sample) pushes(since sample) float64 {
	return s.metrics.Sum(pushes) - since.metrics.Sum(pushes)
}

// convergence returns a quantile of the time to push since an earlier sample, in seconds, or NaN if
// nothing was pushed.
func (s sample) convergence(q float64, since sample) float64 {
	return s.metrics.Quantile(q, convergence, since.metrics)
}

func (s sample) cpu(since sample) float64 { return s.usage.Since(since.usage).CPU.Seconds() }

// objects returns the objects of manifests.
func objects(yaml string) ([]source.Change, error) {
	documents, problems := manifest.Read("lab", []byte(yaml))
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", problems[0].Origin, problems[0].Message)
	}
	var all []source.Change
	for _, d := range documents {
		all = append(all, d.Change(time.Time{}))
	}
	return all, nil
}

// podObject returns the Pod of a proxy.
func podObject(p load.Pod, port int32) source.Change {
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels}}
	o.Spec.ServiceAccountName, o.Spec.NodeName = p.ServiceAccount, p.Node
	o.Spec.Containers = []corev1.Container{
		{Name: "app", Image: "app", Ports: []corev1.ContainerPort{{ContainerPort: port}}},
	}
	o.Status.Phase, o.Status.PodIP = corev1.PodRunning, p.Address
	o.Status.PodIPs = []corev1.PodIP{{IP: p.Address}}
	o.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	o.Annotations = map[string]string{}
	if isLoopback(p) {
		o.Annotations[kinds.OutboundAddressAnnotation] = outbound(p.Address)
	}
	if p.Router {
		o.Annotations[kinds.TemplatesAnnotation] = "gateway"
	}
	return memory.Upsert(kinds.Pod, o)
}

// sliceOf returns the EndpointSlice of a service with these ports, by their names, and pods.
func sliceOf(namespace, service string, ports map[string]int32, pods ...load.Pod) source.Change {
	o := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service + "-1", Labels: map[string]string{
			discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: load.Controller,
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	protocol := corev1.ProtocolTCP
	for name, port := range ports {
		o.Ports = append(o.Ports, discoveryv1.EndpointPort{Name: &name, Port: &port, Protocol: &protocol})
	}
	ready := true
	for _, p := range pods {
		o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{p.Address}, NodeName: &p.Node,
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name},
		})
	}
	return memory.Upsert(kinds.EndpointSlice, o)
}

// joined is manifests as one text.
func joined(manifests ...string) string {
	var b bytes.Buffer
	for _, m := range manifests {
		b.WriteString("---\n" + m + "\n")
	}
	return b.String()
}
