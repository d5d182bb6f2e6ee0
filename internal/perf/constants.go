package perf

import (
	"context"
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/perf/sizing"
)

// A constant is the difference of two measurements. These are the factors between their sizes.
const (
	morePods     = 10
	moreServices = 10
)

// MeasureConstants measures the cost of one sidecar, service, pod and change. It starts a fresh
// control plane for each measurement: three with a mesh and no sidecars, and two with sidecars, one
// of them with a tenth of the services.
func MeasureConstants(ctx context.Context, o Options) (sizing.Constants, error) {
	if o.Mesh.Services < moreServices || o.Sidecars < firstShare {
		return sizing.Constants{}, fmt.Errorf(
			"%d services and %d sidecars: want %d and %d at least, since a part of them is measured too",
			o.Mesh.Services,
			o.Sidecars,
			moreServices,
			firstShare,
		)
	}
	c := sizing.Constants{Machine: measure.ThisMachine()}
	if err := measureWorld(ctx, o, &c); err != nil {
		return c, err
	}
	few := o
	few.Mesh.Services /= moreServices
	few.Mesh.Namespaces = min(few.Mesh.Namespaces, few.Mesh.Services)
	few.Mesh.VirtualServices = min(few.Mesh.VirtualServices, few.Mesh.Services)
	small, err := Run(ctx, few, Scenario{Name: "constants", steps: []step{connectStep()}})
	if err != nil {
		return c, err
	}
	large, err := Run(ctx, o, Scenario{Name: "constants", steps: slices.Concat(
		[]step{connectingSome(), idleStep(), connectStep(), idleStep()}, Namespaces().steps[1:])})
	if err != nil {
		return c, err
	}
	c.Version = large.ControlPlane.Version
	setSidecarBytes(&c, large)
	setConnectCosts(&c, costOf(small.Mesh, small.Phases[1:2]), costOf(large.Mesh, large.Phases[1:4]))
	setChangeCosts(&c, large)
	return c, nil
}

// measureWorld measures the memory of meshes without sidecars.
func measureWorld(ctx context.Context, o Options, c *sizing.Constants) error {
	services := load.Shape{Namespaces: o.Mesh.Namespaces, Services: o.Mesh.Services, Pods: o.Mesh.Services}
	pods := services
	pods.Pods *= morePods
	var resident []float64
	for _, mesh := range []load.Shape{{Namespaces: 1, Services: 1, Pods: 1}, services, pods} {
		o.Mesh = mesh
		r, err := Run(ctx, o, Scenario{Name: "constants", steps: []step{idleStep()}})
		if err != nil {
			return err
		}
		resident = append(resident, float64(r.Phases[1].Resident))
	}
	c.BaseBytes = resident[0]
	c.PodBytes = max(resident[2]-resident[1], 0) / float64(pods.Pods-services.Pods)
	c.ServiceBytes = max((resident[1]-resident[0])/float64(services.Services)-c.PodBytes, 0)
	return nil
}

// firstShare is the inverse of the share of sidecars that connect first when the memory of one is
// measured.
const firstShare = 4

func connectingSome() step {
	return step{name: "connect some", run: func(b *testbed, ctx context.Context, p *Phase) error {
		return b.connect(ctx, p, b.o.Sidecars/firstShare)
	}}
}

// idleStep makes the control plane return unused memory to the system.
func idleStep() step {
	return step{name: "idle", run: func(
		b *testbed, ctx context.Context, _ *Phase,
	) error {
		return b.plane.Collect(ctx)
	}}
}

// setSidecarBytes sets the memory of one sidecar, by the difference between some sidecars and all.
// The rest is the memory of translated services.
func setSidecarBytes(c *sizing.Constants, r Report) {
	few, all := r.Phases[2], r.Phases[4]
	c.SidecarBytes = max(float64(all.Resident-few.Resident), 0) / float64(all.Sidecars-few.Sidecars)
	world := c.BaseBytes + float64(r.Mesh.Services)*c.ServiceBytes + float64(r.Mesh.Pods)*c.PodBytes
	c.TranslatedBytes = max(
		float64(all.Resident)-world-float64(all.Sidecars)*c.SidecarBytes, 0,
	) / float64(r.Mesh.Services)
}

// connectCost is the mean cost of a sidecar's connection in a mesh of so many services.
type connectCost struct {
	sizing.Cost
	services float64
}

// costOf sums the phases in which sidecars connected.
func costOf(mesh load.Shape, phases []Phase) connectCost {
	var sum Phase
	for i := range phases {
		sum.CPU += phases[i].CPU
		sum.Received += phases[i].Received
		sum.Sent += phases[i].Sent
	}
	return connectCost{sum.costPerItem(phases[len(phases)-1].Sidecars), float64(mesh.Services)}
}

// costPerItem divides the cost of a phase by a number of items.
func (p *Phase) costPerItem(n int) sizing.Cost {
	return sizing.Cost{
		CPUSeconds: p.CPU.Float(), Sent: float64(p.Received), Received: float64(p.Sent),
	}.Times(1 / float64(n))
}

// setConnectCosts fits a line through the cost of connecting with few services and with many.
func setConnectCosts(c *sizing.Constants, few, many connectCost) {
	line := func(atFew, atMany float64) (fixed, each float64) {
		each = max(atMany-atFew, 0) / (many.services - few.services)
		return max(atFew-each*few.services, 0), each
	}
	c.Connect.CPUSeconds, c.ConnectService.CPUSeconds = line(few.CPUSeconds, many.CPUSeconds)
	c.Connect.Sent, c.ConnectService.Sent = line(few.Sent, many.Sent)
	c.Connect.Received, c.ConnectService.Received = line(few.Received, many.Received)
}

// setChangeCosts sets the cost of each kind of change for each sidecar that it reached.
func setChangeCosts(c *sizing.Constants, r Report) {
	c.Change = map[string]sizing.Cost{}
	for i := range r.Phases {
		if p := &r.Phases[i]; p.Latency != nil && p.Latency.Count > 0 {
			c.Change[p.Name] = p.costPerItem(p.Latency.Count)
		}
	}
}
