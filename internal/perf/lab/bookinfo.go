package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/perf/cpulimit"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

// publishedApps is how many namespaces have the bookshop, and podsOfShop how many pods each has.
const publishedApps, podsOfShop = 20, 6

func bookinfoLab() Lab {
	return Lab{
		Name:       "bookinfo-20",
		About:      "20 bookshops (120 pods): rollout, more ports, and a second replica of the control plane",
		Document:   "Analyzing performance of the control plane (Maistra)",
		Reproduces: "the figures of Proxy Push Time in its demo",
		Steps: []string{
			"the bookshop in 20 namespaces: 120 sidecars connect to one control plane",
			"all Deployments are restarted (rollout restart): each pod is replaced by a new one",
			"a second control plane starts, to which nobody connects; details gets four more ports in each namespace",
			"half of the proxies connect anew, to the second control plane; details gets four more ports",
		},
		Scale: 1, Limited: true,
		tables: bookinfoTables,
		run:    runBookinfo,
	}
}

func bookinfoTables() []Table {
	columns := []Column{
		{"push time, p99", Seconds}, {"to sidecars, p99", Seconds}, {"CPU", Seconds}, {"pushes", Count},
		{"sidecars", Count}, {"memory", Bytes},
	}
	return []Table{{Title: "Proxy push time", Columns: columns, Rows: []Row{
		row("deployed, one istiod of 10m CPU", len(columns), "30 s (p99.9)"),
		row("rollout restart, two istiods of 250m", len(columns), "991 ms"),
		row("more ports, the second istiod idle", len(columns), "almost 10 s"),
		row("more ports, proxies spread over both", len(columns)),
	}}, {Title: "Real Envoys beside them", Columns: []Column{
		{"Envoys", Count}, {"namespaces with the new ports", Count}, {"refused updates", Count},
		{"write to last Envoy", Seconds}, {"CPU of an Envoy", Seconds},
	}, Rows: []Row{row("more ports", 5)}}}
}

// bookshop is one namespace.
type bookshop struct {
	namespace string
	pods      []load.Pod
}

// bookinfo is the running lab.
type bookinfo struct {
	*run
	shops  []bookshop
	first  *replica
	second *replica
	// next is the number of the next pod, from which its address is made.
	next int
	cpu  []*cpulimit.Group // of both control planes, if they are limited
}

// The published resources of a control plane, in thousandths of a CPU: as the operator deploys it,
// and scaled up.
const (
	deployedCPU = 10
	scaledCPU   = 250
)

// start starts a control plane that has so much CPU.
func (b *bookinfo) start(ctx context.Context, mesh []source.Change, milli int) (*replica, error) {
	plane := b.plane()
	if b.groups != nil {
		group, err := b.groups.New("lateen-lab", milli)
		if err != nil {
			return nil, err
		}
		b.cpu, plane.Started = append(b.cpu, group), group.Add
	}
	return b.openPlane(ctx, mesh, plane)
}

// scaleUp gives the first control plane more CPU.
func (b *bookinfo) scaleUp(context.Context) error {
	if len(b.cpu) == 0 {
		return nil
	}
	waited, err := b.cpu[0].Throttled()
	b.note("The first control plane has waited %.1f s for its %dm CPU until all sidecars had everything.",
		waited.Seconds(), deployedCPU)
	return errors.Join(err, b.cpu[0].Set(scaledCPU))
}

// removeLimits removes the control groups, when their processes have ended.
func (b *bookinfo) removeLimits() (err error) {
	for _, g := range b.cpu {
		err = errors.Join(err, g.Close())
	}
	return err
}

func runBookinfo(ctx context.Context, r *run) (err error) {
	b := &bookinfo{run: r}
	if err := r.checkRoomForEnvoys(r.scaled(publishedApps, 1) * podsOfShop); err != nil {
		return err
	}
	mesh, err := b.mesh()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.removeLimits()) }()
	if b.first, err = b.start(ctx, mesh, deployedCPU); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.first.close(ctx)) }()
	for _, step := range []func(context.Context) error{b.deploy, b.scaleUp, b.restart} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if b.second, err = b.start(ctx, b.present(mesh), scaledCPU); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.second.close(ctx)) }()
	for _, step := range []func(context.Context) error{b.idleReplica, b.spread} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	r.note("Push time is pilot_proxy_convergence_time; to sidecars is the time until a new sidecar has all that "+
		"it asks for (first rows), or from the write of the ports until a sidecar has the new cluster (last "+
		"rows). Control planes and sidecars share this machine, %s. CPU and memory are those of both control "+
		"planes.", b.howLimited())
	return b.envoys(ctx)
}

func (b *bookinfo) howLimited() string {
	if b.groups == nil {
		return "without a limit of CPU (--limits on sets the published ones)"
	}
	return "with the published resources as limits of CPU (published are requests, which a busy node comes down to)"
}

// mesh returns the bookshops.
func (b *bookinfo) mesh() ([]source.Change, error) {
	var manifests []string
	var pods []source.Change
	for n := range b.scaled(publishedApps, 1) {
		s := bookshop{namespace: fmt.Sprintf("bookinfo-%02d", n+1)}
		manifests = append(manifests, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+s.namespace+"}")
		for _, app := range []string{"productpage", "details", "ratings", "reviews"} {
			manifests = append(manifests, service(s.namespace, app, app, 9080))
		}
		for _, app := range []string{"productpage", "details", "ratings", "reviews", "reviews", "reviews"} {
			s.pods = append(s.pods, b.pod(s.namespace, app, len(s.pods)))
		}
		b.shops = append(b.shops, s)
		pods = append(pods, s.objects(1)...)
	}
	all, err := objects(joined(manifests...))
	return append(all, pods...), err
}

// pod returns a new pod. Its version tells the three Deployments of reviews apart.
func (b *bookinfo) pod(namespace, app string, place int) load.Pod {
	b.next++
	pod := loopbackPod(namespace, app, b.next)
	pod.Name = fmt.Sprintf("%s-%d-%05d", app, place, b.next)
	pod.Labels["version"] = fmt.Sprintf("v%d", 1+place)
	if !b.Real {
		pod.Address = fmt.Sprintf("10.20.%d.%d", b.next/200, 1+b.next%200)
	}
	return pod
}

// objects returns the pods and EndpointSlices of a shop, in which details has so many ports.
func (s bookshop) objects(ports int) (all []source.Change) {
	byApp := map[string][]load.Pod{}
	for _, p := range s.pods {
		all = append(all, podObject(p, 9080))
		byApp[p.Labels["app"]] = append(byApp[p.Labels["app"]], p)
	}
	for app, pods := range byApp {
		open := map[string]int32{"http-0": 9080}
		for i := 1; i < ports && app == details; i++ {
			open[fmt.Sprintf("http-%d", i)] = int32(9080 + i)
		}
		all = append(all, sliceOf(s.namespace, app, open, pods...))
	}
	return all
}

const details = "details"

// present returns the mesh as it is by now.
func (b *bookinfo) present(first []source.Change) []source.Change {
	latest := map[source.Key]source.Change{}
	for _, ch := range first {
		if ch.Key.Kind != kinds.Pod {
			latest[ch.Key] = ch
		}
	}
	for _, s := range b.shops {
		for _, ch := range s.objects(1) {
			latest[ch.Key] = ch
		}
	}
	var all []source.Change
	for _, ch := range latest {
		all = append(all, ch)
	}
	return all
}

func (b *bookinfo) deploy(ctx context.Context) error {
	before, err := b.first.sample(ctx)
	if err != nil {
		return err
	}
	for _, s := range b.shops {
		for _, p := range s.pods {
			b.first.connect(p)
		}
	}
	if err := b.first.awaitSync(ctx); err != nil {
		return err
	}
	return b.record(ctx, 0, before, b.first.takeReady())
}

// restart replaces each pod by a new one, Deployment by Deployment: the new pod is ready before the
// old one goes.
func (b *bookinfo) restart(ctx context.Context) error {
	before, err := b.first.sample(ctx)
	if err != nil {
		return err
	}
	for i := range b.shops {
		s := &b.shops[i]
		b.Progress("rollout restart", i, len(b.shops))
		for place, old := range s.pods {
			s.pods[place] = b.pod(s.namespace, old.Labels["app"], place)
			b.first.connect(s.pods[place])
			if err := b.first.plane.Apply(ctx, s.objects(1)...); err != nil {
				return err
			}
			gone := podObject(old, 9080).Key
			if err := b.first.plane.Apply(ctx, memory.Delete(gone.Kind, gone.Namespace, gone.Name)); err != nil {
				return err
			}
			b.first.disconnect(old.Name)
		}
	}
	if err := b.first.awaitSync(ctx); err != nil {
		return err
	}
	return b.record(ctx, 1, before, b.first.takeReady())
}

// record fills a row with what the control planes have done since a sample of the first.
func (b *bookinfo) record(ctx context.Context, at int, before sample, times *measure.Distribution) error {
	after, err := b.first.sample(ctx)
	if err != nil {
		return err
	}
	b.tables[0].put(at, after.convergence(0.99, before), times.Quantile(0.99).Seconds(), after.cpu(before),
		after.pushes(before), float64(len(b.first.stops)), float64(after.usage.Resident))
	return nil
}

// ports writes details with so many ports to all replicas, and returns when each namespace was
// written.
func (b *bookinfo) ports(ctx context.Context, ports int) (written []time.Time, err error) {
	var numbers []int
	for i := range ports {
		numbers = append(numbers, 9080+i)
	}
	for _, s := range b.shops {
		changes, err := objects(service(s.namespace, details, details, numbers...))
		if err != nil {
			return nil, err
		}
		changes = append(changes, s.objects(ports)...)
		written = append(written, time.Now())
		for _, c := range b.replicas() {
			if err := c.plane.Apply(ctx, changes...); err != nil {
				return nil, err
			}
		}
	}
	return written, nil
}

func (b *bookinfo) replicas() []*replica { return []*replica{b.first, b.second} }

// lastPort begins the name of the cluster of the last port of details.
func (s bookshop) lastPort(ports int) string {
	return fmt.Sprintf("outbound|%d||details.%s.", 9080+ports-1, s.namespace)
}

// addPorts gives details so many ports, and returns how long the last one took to sidecars.
func (b *bookinfo) addPorts(ctx context.Context, ports int) (*measure.Distribution, error) {
	var clusters []string
	for _, s := range b.shops {
		clusters = append(clusters, s.lastPort(ports))
	}
	all := 0
	for _, c := range b.replicas() {
		c.expect(clusters...)
		all += len(b.shops) * len(c.stops)
	}
	written, err := b.ports(ctx, ports)
	if err != nil {
		return nil, err
	}
	err = b.await(ctx, "waiting for the new ports", all, func() int {
		return b.first.countArrived() + b.second.countArrived()
	})
	if err != nil {
		return nil, err
	}
	d := measure.NewDistribution()
	for _, c := range b.replicas() {
		c.mu.Lock()
		for mark, pods := range c.arrived {
			for _, at := range pods {
				d.Add(at.Sub(written[mark-1]))
			}
		}
		c.mu.Unlock()
	}
	return d, nil
}

// idleReplica adds the ports while all proxies are connected to the first control plane.
func (b *bookinfo) idleReplica(ctx context.Context) error { return b.measurePorts(ctx, 2, few) }

// few and many are how many ports details gets, one after the other.
const few, many = 5, 9

// spread connects half of the proxies to the second control plane, and adds more ports.
func (b *bookinfo) spread(ctx context.Context) error {
	i := 0
	for _, s := range b.shops {
		for _, p := range s.pods {
			if i++; i%2 == 0 {
				b.first.disconnect(p.Name)
				b.second.connect(p)
			}
		}
	}
	for _, c := range b.replicas() {
		if err := c.awaitSync(ctx); err != nil {
			return err
		}
	}
	return b.measurePorts(ctx, 3, many)
}

func (b *bookinfo) measurePorts(ctx context.Context, at, ports int) error {
	var before, after [2]sample
	for i, c := range b.replicas() {
		var err error
		if before[i], err = c.sample(ctx); err != nil {
			return err
		}
	}
	times, err := b.addPorts(ctx, ports)
	if err != nil {
		return err
	}
	var convergence, cpu, pushes, sidecars, memory float64
	for i, c := range b.replicas() {
		if after[i], err = c.sample(ctx); err != nil {
			return err
		}
		if v := after[i].convergence(0.99, before[i]); !math.IsNaN(v) { // the idle one has none
			convergence = max(convergence, v)
		}
		cpu, pushes = cpu+after[i].cpu(before[i]), pushes+after[i].pushes(before[i])
		sidecars, memory = sidecars+float64(len(c.stops)), memory+float64(after[i].usage.Resident)
	}
	b.tables[0].put(at, convergence, times.Quantile(0.99).Seconds(), cpu, pushes, sidecars, memory)
	return nil
}
