package advise

import (
	"fmt"
)

// The thresholds of signals. Those of latency and saturation are the ones of the alerts.
const (
	slowSeconds = 1.0 // p99 from change to proxy
	fullShare   = 0.9 // of CPUs, push slots, memory
	idleShare   = 0.7 // of CPUs; below it more pushes at a time help
	// largeConfig is the configuration of a proxy in bytes above which the size is called a
	// bottleneck: what 1,000 services make of it, by the model.
	largeConfig = 1e6
)

// judge sets the states of the signals.
func (d *diagnosis) judge() {
	states := map[Signal][]Evidence{Latency: d.latency(), Saturation: d.saturation(), Traffic: d.traffic(),
		Errors: d.errors()}
	for _, s := range []Signal{Latency, Saturation, Traffic, Errors} {
		state := SignalState{Signal: s, State: OK, Evidence: states[s]}
		if len(d.Replicas) == 0 {
			state.State, state.Evidence = Unknown, nil
		}
		for _, e := range state.Evidence {
			if e.Off {
				state.State = Off
			}
		}
		d.signals = append(d.signals, state)
	}
}

func above(metric string, value, threshold float64, unit string) Evidence {
	return Evidence{Metric: metric, Value: value, Threshold: threshold, Unit: unit, Off: value > threshold}
}

func (d *diagnosis) latency() []Evidence {
	h := d.histogram(metricConvergence)
	return []Evidence{
		above(metricConvergence+" p99", h.quantile(0.99), slowSeconds, "s"),
		{Metric: metricConvergence + " p50", Value: h.quantile(0.5), Unit: "s"},
		{Metric: metricQueueTime + " p99", Value: d.histogram(metricQueueTime).quantile(0.99), Unit: "s"},
	}
}

func (d *diagnosis) saturation() []Evidence {
	return []Evidence{
		above("CPU of the fullest replica", d.fullest((*Replica).cpuShare), fullShare, "of its CPUs"),
		above("push slots of the fullest replica", d.fullest((*Replica).slotShare), fullShare, "of its slots"),
		above("memory of the fullest replica", d.fullest((*Replica).memoryShare), fullShare, "of its limit"),
	}
}

func (d *diagnosis) traffic() []Evidence {
	size := d.histogram(metricConfigSize)
	return []Evidence{
		{Metric: metricUpdates, Value: d.rate(metricUpdates), Unit: "/s"},
		{Metric: metricPushes, Value: d.rate(metricPushes), Unit: "/s"},
		{Metric: metricConfigSize, Value: share(size.Sum, d.seconds()), Unit: "B/s"},
		{Metric: metricProxies, Value: d.gauge(metricProxies)},
		{Metric: metricServices, Value: d.fullest(func(r *Replica) float64 { return r.Gauges[metricServices] })},
		{Metric: "configuration of a proxy, mean", Value: d.meanConfig(), Unit: "B"},
	}
}

func (d *diagnosis) errors() []Evidence {
	return []Evidence{
		above(metricRejects, d.increase(metricRejects), 0, "in the window"),
		above(metricWriteTimeouts, d.increase(metricWriteTimeouts), 0, "in the window"),
		above(metricInternal, d.increase(metricInternal), 0, "in the window"),
	}
}

func (d *diagnosis) state(s Signal) State {
	for _, state := range d.signals {
		if state.Signal == s {
			return state.State
		}
	}
	return Unknown
}

func (f *Facts) seconds() float64 {
	if len(f.Replicas) == 0 {
		return 0
	}
	return f.Replicas[0].Seconds
}

func (f *Facts) gauge(name string) (sum float64) {
	for i := range f.Replicas {
		sum += f.Replicas[i].Gauges[name]
	}
	return sum
}

// meanConfig returns the mean size of a sidecar's configuration in bytes.
func (f *Facts) meanConfig() float64 {
	sum := 0
	for _, p := range f.Proxies {
		if !p.Router {
			sum += p.ConfigBytes
		}
	}
	return share(float64(sum), float64(f.numProxies(false)))
}

// incoming and outgoing are the seconds of each second that all replicas spend with events, and
// with pushes. Both are wall time, so they compare with each other and not with CPU.
func (f *Facts) incoming() float64 {
	return share(f.histogram(metricInit).Sum+f.histogram(metricCompile).Sum, f.seconds())
}

func (f *Facts) outgoing() float64 {
	return max(f.rate(metricPushBusy), share(f.histogram(metricPushTime).Sum, f.seconds()))
}

// cpuFull, slotsFull and memoryFull are the three kinds of saturation.
func (f *Facts) cpuFull() bool    { return f.fullest((*Replica).cpuShare) > fullShare }
func (f *Facts) slotsFull() bool  { return f.fullest((*Replica).slotShare) > fullShare }
func (f *Facts) memoryFull() bool { return f.fullest((*Replica).memoryShare) > fullShare }
func (f *Facts) cpuIdle() bool    { return f.fullest((*Replica).cpuShare) < idleShare }

// limitedBy finds the bottleneck.
func (d *diagnosis) limitedBy() Bottleneck {
	in, out := d.incoming(), d.outgoing()
	between := fmt.Sprintf("%.2f s of each second go to events and %.2f s to pushes", in, out)
	large := d.meanConfig() > largeConfig
	switch {
	case len(d.Replicas) == 0:
		return Bottleneck{NoFactor, "nothing was measured"}
	case d.cpuFull() && in >= out:
		return Bottleneck{RateOfChanges, "the CPUs are full, and " + between}
	case d.cpuFull() && large:
		return Bottleneck{ConfigSize, fmt.Sprintf("the CPUs are full, %s, and a proxy has %.1f MB", between,
			d.meanConfig()/1e6)}
	case d.cpuFull():
		return Bottleneck{NumProxies, "the CPUs are full, and " + between}
	case d.memoryFull() && large:
		return Bottleneck{ConfigSize, fmt.Sprintf("the memory is full, and a proxy has %.1f MB", d.meanConfig()/1e6)}
	case d.memoryFull():
		return Bottleneck{Resources, "the memory is full"}
	case d.state(Latency) == Off && d.slotsFull():
		return Bottleneck{PushSlots, "pushes wait for each other while CPUs are idle"}
	case d.state(Latency) == Off && large:
		return Bottleneck{ConfigSize, fmt.Sprintf("nothing is full, and a proxy has %.1f MB", d.meanConfig()/1e6)}
	case d.state(Latency) == Off:
		return Bottleneck{Elsewhere, "nothing of the control plane is full"}
	}
	return Bottleneck{NoFactor, "changes arrive in time, and nothing is full"}
}
