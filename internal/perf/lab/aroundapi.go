package lab

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

const (
	// apiWindow is how long the API server is measured while pods are replaced, apiReplaced of them
	// each second.
	apiWindow   = 8 * time.Second
	apiIdle     = 3 * time.Second
	apiReplaced = 20
)

// The rows of the table of the API server. What is written is compared with two published figures.
const (
	apiEmpty = iota
	apiWritten
	apiWrittenCilium
	apiChanges
	apiChangesWatched
)

func apiServerTableOf() Table {
	columns := []Column{
		{sidecarsColumn, Count}, {"API server memory", Bytes}, {"API server CPU", Cores}, {"etcd memory", Bytes},
		{"etcd CPU", Cores}, {"pods written", PerSecond}, {"API server CPU for one", Seconds}, {"Lateen memory", Bytes},
		{"Lateen CPU", Cores},
	}
	return Table{Title: "The API server", Columns: columns, Rows: []Row{
		row("no objects", len(columns)),
		row("Azure CNI Overlay: sidecars are written", len(columns), "20,000", "38.9 GB", "6.1"),
		row("Azure CNI Overlay with Cilium: the same", len(columns), "20,000", "9.7 GB", "4.7"),
		row("20 pods a second are replaced, no mesh", len(columns)),
		row("the same, and Lateen watches", len(columns)),
	}}
}

// measureAPIServer fills the table of the API server.
func (r *run) measureAPIServer(ctx context.Context) (err error) {
	r.Progress("starting an API server", 0, 0)
	k, err := r.startKube(ctx)
	if err != nil {
		return err
	}
	defer k.stop()
	m := &apiMeasurement{run: r, kube: k, shape: r.apiShape()}
	m.pods = load.NewPods(m.shape)
	for _, step := range []func(context.Context) error{m.idle, m.write, m.unwatched, m.watched} {
		if err := step(ctx); err != nil {
			return errors.Join(err, k.err())
		}
	}
	r.note("The API server: kube-apiserver, etcd (without fsync) and the controller of EndpointSlices run here, and " +
		"nobody else asks: no kubelets, no kube-proxy, no other controllers, no definitions of Istio's kinds. In a " +
		"cluster every node watches, too. Pods have no proxies. Much of its memory is there without objects: take " +
		"the first row off to reckon with more of them. What Lateen costs the API server is the difference of the " +
		"last two rows.")
	return nil
}

// apiShape is the mesh of AKS at the scale of this run.
func (r *run) apiShape() load.Shape {
	services := r.scaled(1000, 4)
	return load.Shape{
		Namespaces: min(50, services), Services: services, Pods: max(services, r.scaled(20_000, 4)),
	}
}

// apiMeasurement is the measurement of an API server.
type apiMeasurement struct {
	*run
	kube  *kube
	shape load.Shape
	pods  *load.Pods
	next  int // the place of the pod that is replaced next
}

// fill measures the processes while something is done, and fills rows. It returns how many pods
// were written. lateen is nil if there is none.
func (m *apiMeasurement) fill(
	ctx context.Context, lateen measure.Process, rows []int, do func(context.Context) (pods int, err error),
) error {
	processes := []measure.Process{m.kube.api.pid(), m.kube.etcd.pid()}
	if lateen != nil {
		processes = append(processes, lateen)
	}
	before, err := usages(ctx, processes)
	if err != nil {
		return err
	}
	written, err := do(ctx)
	if err != nil {
		return err
	}
	after, err := usages(ctx, processes)
	if err != nil {
		return err
	}
	seconds := after[0].At.Sub(before[0].At).Seconds()
	sidecars := 0
	if rows[0] != apiEmpty {
		sidecars = m.shape.Pods
	}
	figures := []float64{float64(sidecars)}
	add := func(i int) {
		figures = append(figures, float64(after[i].Resident), (after[i].CPU-before[i].CPU).Seconds()/seconds)
	}
	add(0)
	add(1)
	each := math.NaN() // nothing is written
	if written > 0 {
		each = (after[0].CPU - before[0].CPU).Seconds() / float64(written)
	}
	if figures = append(figures, float64(written)/seconds, each); lateen != nil {
		add(2)
	}
	for _, at := range rows {
		m.tables[apiServerTable].put(at, figures...)
	}
	return nil
}

func usages(ctx context.Context, processes []measure.Process) (all []measure.Usage, err error) {
	for _, p := range processes {
		u, err := p.Usage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}

func (m *apiMeasurement) idle(ctx context.Context) error {
	return m.fill(ctx, nil, []int{apiEmpty}, func(ctx context.Context) (int, error) { return 0, m.pause(ctx, apiIdle) })
}

// write writes the mesh, and waits for its endpoints.
func (m *apiMeasurement) write(ctx context.Context) error {
	m.Progress("writing pods to the API server", 0, 0)
	return m.fill(ctx, nil, []int{apiWritten, apiWrittenCilium}, func(ctx context.Context) (int, error) {
		if err := m.kube.cluster.Begin(ctx, append(m.shape.Objects(), m.pods.Objects()...)); err != nil {
			return 0, err
		}
		return m.shape.Pods, m.kube.cluster.AwaitEndpoints(ctx, m.shape.Pods)
	})
}

// unwatched replaces pods while nobody but the controller watches.
func (m *apiMeasurement) unwatched(ctx context.Context) error {
	return m.fill(ctx, nil, []int{apiChanges}, m.replace)
}

// watched replaces pods while Lateen watches.
func (m *apiMeasurement) watched(ctx context.Context) (err error) {
	m.Progress("starting the control plane", 0, 0)
	at := m.Cluster
	at.Kubeconfig = m.kube.kubeconfig()
	command, target, err := at.command(load.Prefix + "000")
	if err != nil {
		return err
	}
	plane := controlplane.External{Cluster: m.kube.cluster, Name: "lateen", Keep: true}.Run(command, target, nil)
	defer func() { err = errors.Join(err, plane.Close(context.WithoutCancel(ctx))) }()
	if err := plane.Start(ctx, append(m.shape.Objects(), load.NewPods(m.shape).Objects()...)); err != nil {
		return err
	}
	return m.fill(ctx, plane, []int{apiChangesWatched}, m.replace)
}

// replace replaces pods at a steady rate, one after the other, and returns how many.
func (m *apiMeasurement) replace(ctx context.Context) (pods int, err error) {
	window := time.Duration(float64(apiWindow) * m.Pause)
	ticker := time.NewTicker(time.Second / apiReplaced)
	defer ticker.Stop()
	for began := time.Now(); time.Since(began) < window || pods == 0; pods++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return pods, ctx.Err()
		}
		m.Progress("replacing pods", pods, int(math.Ceil(apiReplaced*window.Seconds())))
		place := m.next % m.shape.Pods
		m.next++
		if err := m.kube.cluster.Apply(ctx, m.pods.Remove(place)...); err != nil {
			return pods, err
		}
		_, added := m.pods.Replace(place, load.Marker(0))
		if err := m.kube.cluster.Apply(ctx, added...); err != nil {
			return pods, err
		}
	}
	return pods, nil
}
