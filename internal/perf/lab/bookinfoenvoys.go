package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// sampleSize is how many real Envoys stand beside the simulated sidecars, unless all are real.
const sampleSize = 2

// startsAtOnce is how many Envoys start at a time.
const startsAtOnce = 4

// memoryOfEnvoy is what an Envoy with the bookshops takes, in bytes: 45 MB of its own, measured.
const memoryOfEnvoy = 60_000_000

// checkRoomForEnvoys reports whether there is memory for an Envoy for each pod, before anything
// starts.
func (r *run) checkRoomForEnvoys(pods int) error {
	if !r.Real {
		return nil
	}
	if r.Envoy == "" {
		return errors.New("--real needs an Envoy: make envoy puts one into .tools, or name one with --envoy")
	}
	free := measure.ThisRoom().Memory
	if need := int64(pods) * memoryOfEnvoy; free > 0 && need > free {
		return fmt.Errorf("%d Envoys take some %d MiB of memory, and %d MiB are free; want a --scale of %.2g or less",
			pods, need>>20, free>>20, math.Floor(100*r.Scale*float64(free)/float64(need))/100)
	}
	return nil
}

// realPod is a pod whose sidecar is an Envoy, and the control plane that it connects to.
type realPod struct {
	pod load.Pod
	at  *replica
}

// realPods returns the pods whose sidecars are Envoys: a sample beside the bookshops, or all pods
// of the bookshops, whose simulated sidecars end.
func (b *bookinfo) realPods(ctx context.Context) (all []realPod, err error) {
	if !b.Real {
		for i := range sampleSize {
			pod := loopbackPod(b.shops[0].namespace, "sample", i)
			all = append(all, realPod{pod, b.first})
			err = errors.Join(err, b.first.plane.Apply(ctx, podObject(pod, 9080)))
		}
		return all, err
	}
	for _, s := range b.shops {
		for _, pod := range s.pods {
			for _, c := range b.replicas() {
				if _, connected := c.stops[pod.Name]; connected {
					c.disconnect(pod.Name)
					all = append(all, realPod{pod, c})
				}
			}
		}
	}
	return all, nil
}

// envoys has real Envoys take the whole configuration, and counts in how many each new port has
// arrived.
func (b *bookinfo) envoys(ctx context.Context) (err error) {
	if b.Envoy == "" {
		b.note("There was no Envoy: make envoy puts one into .tools, or name one with --envoy.")
		return nil
	}
	if _, err := b.ports(ctx, 1); err != nil {
		return err
	}
	pods, err := b.realPods(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	all, err := b.startEnvoys(ctx, pods)
	defer func() {
		for _, e := range all {
			e.stop()
		}
	}()
	if err != nil {
		return err
	}
	if b.Real {
		b.note("All %d sidecars were Envoys in the last table; they took %.0f s to start, %d at a time, until each "+
			"had its configuration.", len(all), time.Since(began).Seconds(), startsAtOnce)
	}
	return b.portsToEnvoys(ctx, all)
}

// startEnvoys starts the Envoys, and returns those that have started also with an error.
func (b *bookinfo) startEnvoys(ctx context.Context, pods []realPod) (all []*envoy, err error) {
	var mu sync.Mutex
	starts, ctx := errgroup.WithContext(ctx)
	starts.SetLimit(startsAtOnce)
	for _, p := range pods {
		starts.Go(func() error {
			e, err := b.startEnvoy(ctx, p.at.plane.Address(), p.pod, "")
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				all = append(all, e)
			}
			b.Progress("starting Envoys", len(all), len(pods))
			return err
		})
	}
	err = starts.Wait()
	return all, err
}

// portsToEnvoys adds ports, and fills the row of the Envoys.
func (b *bookinfo) portsToEnvoys(ctx context.Context, all []*envoy) error {
	before, err := cpuOf(ctx, all)
	if err != nil {
		return err
	}
	written, err := b.ports(ctx, many)
	if err != nil {
		return err
	}
	times, rejected := measure.NewDistribution(), 0.0
	for _, e := range all {
		err := b.await(ctx, "Envoys take the ports", len(b.shops), func() int { return b.clusters(ctx, e) })
		if err != nil {
			return err
		}
		times.Add(time.Since(written[0]))
	}
	after, err := cpuOf(ctx, all)
	if err != nil {
		return err
	}
	for _, e := range all {
		n, err := e.counter(ctx, "update_rejected")
		if err != nil {
			return err
		}
		rejected += n
	}
	b.tables[1].put(0, float64(len(all)), float64(len(b.shops)), rejected, times.Quantile(1).Seconds(),
		(after-before).Seconds()/float64(len(all)))
	return nil
}

// cpuOf returns what Envoys have taken of the CPU since they began.
func cpuOf(ctx context.Context, all []*envoy) (sum time.Duration, err error) {
	for _, e := range all {
		u, err := e.pid().Usage(ctx)
		if err != nil {
			return 0, err
		}
		sum += u.CPU
	}
	return sum, nil
}

// clusters returns in how many namespaces an Envoy knows the last port of details.
func (b *bookinfo) clusters(ctx context.Context, e *envoy) (n int) {
	body, err := e.get(ctx, "/clusters")
	if err != nil {
		return 0
	}
	for _, s := range b.shops {
		if strings.Contains(body, s.lastPort(many)) {
			n++
		}
	}
	return n
}
