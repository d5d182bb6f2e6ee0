package advise

import (
	"fmt"
	"math"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/perf/sizing"
)

// targetShare is the share of its CPUs that a replica should use: half, so that it has room for
// bursts and for the proxies of a replica that ends. It is what lateen perf model reckons with.
const targetShare = 0.5

// debounce advises a longer quiet period for changes that come one after the other: 10 % more, 20 %
// if hardly any CPU is left, 30 % if none is.
func (d *diagnosis) debounce() []Finding {
	if d.bottleneck.Factor != RateOfChanges || !d.Settings.Known || d.Settings.DebounceAfter <= 0 {
		return nil
	}
	factor, cpu := 1.1, d.fullest((*Replica).cpuShare)
	switch {
	case cpu > 0.99:
		factor = 1.3
	case cpu > 0.95:
		factor = 1.2
	}
	batches := d.histogram(metricDebounce).Count / float64(len(d.Replicas)) / max(d.seconds(), 1e-9)
	updates := d.rate(metricUpdates) / float64(len(d.Replicas))
	more := d.Settings.DebounceAfter * (factor - 1)
	after := max(batches*math.Exp(-updates*more), min(batches, share(1, d.Settings.DebounceMax)))
	variables := map[string]string{"PILOT_DEBOUNCE_AFTER": formatSeconds(d.Settings.DebounceAfter * factor)}
	if d.Settings.DebounceEarly > 0 {
		variables["LATEEN_DEBOUNCE_EARLY"] = formatSeconds(d.Settings.DebounceEarly) // else it would be turned off
	}
	return []Finding{{
		Summary: fmt.Sprintf("changes come faster than the CPUs can work them in; wait %.0f %% longer for more of them",
			100*(factor-1)),
		Evidence: []Evidence{
			above("CPU of the fullest replica", cpu, fullShare, "of its CPUs"),
			above("seconds for events", d.incoming(), d.outgoing(), "s/s"),
		},
		Effects: []Effect{
			{What: "batches of changes, if these come independently of each other", Unit: "/s", Before: batches,
				After: after},
			{What: "wait of a change for its batch, at least", Unit: "s", Before: d.Settings.DebounceAfter,
				After: d.Settings.DebounceAfter * factor},
		},
		Remedy: Remedy{Variables: variables,
			Text: "watch the latency for a day or two before the next step: it does not contain the wait"},
	}}
}

// throttle advises more pushes at a time while CPUs are idle.
func (d *diagnosis) throttle() []Finding {
	if d.bottleneck.Factor != PushSlots || !d.cpuIdle() {
		return nil
	}
	slots := d.fullest(func(r *Replica) float64 { return r.Gauges[metricSlots] })
	cpu, busy := d.fullest((*Replica).cpuShare), d.fullest((*Replica).slotShare)
	factor := math.Min(2, targetShare/math.Max(cpu, 1e-9)*2)
	wanted := math.Ceil(slots * math.Max(factor, 1.1))
	queue := d.histogram(metricQueueTime).quantile(0.99)
	return []Finding{{
		Summary: "pushes wait for each other while CPUs are idle",
		Evidence: []Evidence{
			above(metricConvergence+" p99", d.histogram(metricConvergence).quantile(0.99), slowSeconds, "s"),
			above("push slots of the fullest replica", busy, fullShare, "of its slots"),
			{Metric: "CPU of the fullest replica", Value: cpu, Threshold: idleShare, Unit: "of its CPUs", Off: true},
		},
		Effects: []Effect{
			{What: "pushes at a time", Before: slots, After: wanted},
			{What: "share of push slots in use", Before: busy, After: busy * slots / wanted},
			{What: metricQueueTime + " p99", Unit: "s", Before: queue, After: queue * slots / wanted},
		},
		Remedy: Remedy{Variables: map[string]string{"PILOT_PUSH_THROTTLE": fmt.Sprintf("%.0f", wanted)}},
	}}
}

// scalesOut reports whether more replicas help: pushes fill the CPUs.
func (d *diagnosis) scalesOut() bool {
	return (d.bottleneck.Factor == NumProxies || d.bottleneck.Factor == ConfigSize) && d.cpuFull()
}

// wantedBounds are those of an autoscaler. scaleOut and autoscaler advise the same ones.
func (d *diagnosis) wantedBounds() (least, most float64) {
	if !d.scalesOut() {
		return minReplicas, minReplicas
	}
	least = max(minReplicas, d.wantedReplicas())
	if d.Autoscaler != nil {
		most = float64(d.Autoscaler.Max) + 1
	}
	return least, max(2*least, most)
}

// scaleOut advises more replicas where pushes fill the CPUs.
func (d *diagnosis) scaleOut() []Finding {
	if !d.scalesOut() {
		return nil
	}
	now, wanted := float64(len(d.Replicas)), d.wantedReplicas()
	least, most := d.wantedBounds()
	proxies, cpu := d.gauge(metricProxies), d.fullest((*Replica).cpuShare)
	return []Finding{{
		Summary: "pushes to proxies fill the CPUs: share the proxies among more replicas",
		Evidence: []Evidence{
			above("CPU of the fullest replica", cpu, fullShare, "of its CPUs"),
			above("seconds for pushes", d.outgoing(), d.incoming(), "s/s"),
		},
		Effects: []Effect{
			{What: "replicas", Before: now, After: wanted},
			{What: "proxies of a replica", Before: proxies / now, After: proxies / wanted},
			{What: "CPU of a replica", Unit: "of its CPUs", Before: cpu, After: cpu * now / wanted},
			d.lastSidecar(proxies/now, proxies/wanted),
		},
		Remedy: Remedy{Values: map[string]string{
			"pilot.autoscaleMin": fmt.Sprintf("%.0f", least), "pilot.autoscaleMax": fmt.Sprintf("%.0f", most),
		}, Text: "connections stay where they are until they end by age (pilot.keepaliveMaxServerConnectionAge) or " +
			"with kubectl rollout restart deployment/istiod"},
	}}
}

// wantedReplicas returns so many replicas that each uses half of its CPUs, and one more at least.
func (d *diagnosis) wantedReplicas() float64 {
	now := float64(len(d.Replicas))
	return max(now+1, math.Ceil(now*d.fullest((*Replica).cpuShare)/targetShare))
}

// lastSidecar is the model's CPU time until a change is sent to the last sidecar of a replica.
func (d *diagnosis) lastSidecar(before, after float64) Effect {
	cpus := d.fullest((*Replica).cpus)
	at := func(sidecars float64) float64 {
		mesh := sizing.Mesh{Services: len(d.Census.Services), Seen: 1, Kind: "endpoints"}
		return d.model.Replica(mesh, sizing.Limits{Cores: max(cpus, 1)}, int(sidecars)).LastSidecar.Float()
	}
	return Effect{
		What: "CPU time until one change is at the last proxy", Unit: "s", Before: at(before), After: at(after),
	}
}

// scaleUp advises more CPU where events fill it: each replica works in all of them.
func (d *diagnosis) scaleUp() []Finding {
	if d.bottleneck.Factor != RateOfChanges {
		return nil
	}
	cpus := d.fullest((*Replica).cpus)
	cpu := d.fullest((*Replica).cpuShare)
	wanted := math.Ceil(cpus * cpu / targetShare)
	return []Finding{{
		Summary: "each replica works in all changes, so more replicas would not help: give each more CPU",
		Evidence: []Evidence{
			above("CPU of the fullest replica", cpu, fullShare, "of its CPUs"),
			above("seconds for events", d.incoming(), d.outgoing(), "s/s"),
		},
		Effects: []Effect{
			{What: "CPUs of a replica", Before: cpus, After: wanted},
			{What: "CPU of a replica", Unit: "of its CPUs", Before: cpu, After: cpu * cpus / wanted},
		},
		Remedy: Remedy{Values: map[string]string{"pilot.resources.requests.cpu": fmt.Sprintf("%.0f", wanted)},
			Text: "without pilot.resources.limits.cpu it may take more in bursts"},
	}}
}

// memory advises another limit.
func (d *diagnosis) memory() []Finding {
	if !d.memoryFull() {
		return nil
	}
	limit := d.fullest(func(r *Replica) float64 { return r.Gauges[metricMemoryLimit] })
	used := d.fullest((*Replica).memoryShare)
	proxies := d.gauge(metricProxies) / float64(len(d.Replicas))
	mesh := sizing.Mesh{
		Services: len(d.Census.Services), Pods: d.pods(), Sidecars: max(int(proxies), 1), Seen: 1, Kind: "endpoints",
	}
	modelled := d.model.Replica(mesh, sizing.Limits{Cores: 1, Headroom: 0.5}, mesh.Sidecars).MemoryBytes
	wanted := math.Ceil(max(limit*used/targetShare, modelled)/(64<<20)) * 64
	return []Finding{{
		Summary:  "a replica has hardly any memory left: new proxies wait, and then it is killed",
		Evidence: []Evidence{above("memory of the fullest replica", used, fullShare, "of its limit")},
		Effects: []Effect{
			{What: "memory limit", Unit: "B", Before: limit, After: wanted * (1 << 20)},
			{What: "share of it in use", Before: used, After: used * limit / (wanted * (1 << 20))},
		},
		Remedy: Remedy{Values: map[string]string{"pilot.resources.limits.memory": fmt.Sprintf("%.0fMi", wanted)}},
	}}
}

func (f *Facts) pods() (n int) {
	for _, namespace := range f.Census.Namespaces {
		n += namespace.Workloads + namespace.Gateways
	}
	return n
}

// formatSeconds writes a duration as the settings take it.
func formatSeconds(s float64) string {
	return time.Duration(measure.Seconds(s * float64(time.Second))).Round(time.Millisecond).String()
}
