package dataplane

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/traffic"
)

// KnobsKind is the kind of a report about knobs in its JSON.
const KnobsKind = "data-plane-knobs"

// knob is a setting whose cost is measured.
type knob struct {
	name, api string
	set       func(*Options)
	// single measures the proxies with one worker thread.
	single bool
}

// The names of some knobs. KnobOff is that which the others are compared with.
const (
	KnobOff      = "off"
	KnobTextLogs = "access logs, text"
	KnobJSONLogs = "access logs, JSON"
)

// knobs returns all settings, the one that turns everything off first. Each is set by Istio's API.
func knobs() []knob {
	traced := func(percent float64) func(*Options) {
		return func(o *Options) { o.Tracing, o.Sampling = true, percent }
	}
	return []knob{
		{name: KnobOff, api: "defaultProviders.metrics: []", set: func(*Options) {}},
		{name: "metrics", api: "defaultProviders.metrics", set: func(o *Options) { o.Telemetry = true }},
		{name: "metrics, requests alone", api: "Telemetry, overrides", set: func(o *Options) {
			o.Telemetry, o.fewMetrics = true, true
		}},
		{name: KnobTextLogs, api: "accessLogFile", set: func(o *Options) { o.AccessLogs = true }},
		{name: KnobJSONLogs, api: "accessLogEncoding: JSON", set: func(o *Options) {
			o.AccessLogs, o.JSONLogs = true, true
		}},
		{name: "tracing, 0 %", api: "randomSamplingPercentage: 0", set: traced(0)},
		{name: "tracing, 1 %", api: "randomSamplingPercentage: 1", set: traced(1)},
		{name: "tracing, 100 %", api: "randomSamplingPercentage: 100", set: traced(100)},
		{name: "metrics, logs as text, tracing 1 %", api: "all of these", set: func(o *Options) {
			traced(1)(o)
			o.Telemetry, o.AccessLogs = true, true
		}},
		{name: "off, one worker", api: "concurrency: 1", set: func(*Options) {}, single: true},
	}
}

// KnobReport is what each knob costs.
type KnobReport struct {
	Setup
	QPS         float64      `json:"qps"`
	Connections int          `json:"connections"`
	Knobs       []KnobResult `json:"knobs"`
}

// KnobResult is one setting over all rounds.
type KnobResult struct {
	Name string `json:"name"`
	API  string `json:"api"`
	// Caller and Called are the CPUs that the two proxies take for 1,000 requests a second.
	Caller float64 `json:"callerCores"`
	Called float64 `json:"calledCores"`
	// Ratio is the CPU time of both for a request, divided by that of "off" in the same round; Low
	// and High are its confidence interval of 95 %.
	Ratio   float64 `json:"ratio"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Latency Latency `json:"latency"`
	// Failed is how many requests were not answered.
	Failed int `json:"failed,omitempty"`
}

// RunKnobs measures the path through two sidecars with each knob in turn, round by round, with the
// first number of requests and connections of the options.
func RunKnobs(ctx context.Context, o Options) (r KnobReport, err error) {
	o.Telemetry, o.AccessLogs, o.JSONLogs, o.Tracing, o.knobs = false, false, false, false, true
	if err := o.Validate(); err != nil {
		return r, err
	}
	c := Case{QPS: o.QPS[0], Connections: o.Connections[0]}
	r = KnobReport{Setup: newSetup(KnobsKind, o), QPS: c.QPS, Connections: c.Connections}
	m, err := startMesh(ctx, o)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, m.stop()) }()
	all := slices.DeleteFunc(knobs(), func(k knob) bool {
		return k.single && o.Protocol == traffic.TCP ||
			len(o.Knobs) > 0 && k.name != KnobOff && !slices.Contains(o.Knobs, k.name)
	})
	samples := make([][]Sample, len(all))
	for round := range o.Rounds {
		for i := range all {
			at := (i + round) % len(all) // each comes first in turn
			o.progress(all[at].name, round*len(all)+i, o.Rounds*len(all))
			s, err := m.turn(ctx, all[at], c)
			if err != nil {
				return r, fmt.Errorf("%s: %w", all[at].name, err)
			}
			samples[at] = append(samples[at], s)
			r.note(m.problems())
		}
	}
	for i, k := range all {
		r.Knobs = append(r.Knobs, resultOf(k, samples[i], samples[0]))
	}
	return r, nil
}

// note keeps what was not noted before.
func (r *KnobReport) note(notes []string) {
	for _, n := range notes {
		if !slices.Contains(r.Notes, n) {
			r.Notes = append(r.Notes, n)
		}
	}
}

// turn sets a knob and measures once.
func (m *mesh) turn(ctx context.Context, k knob, c Case) (Sample, error) {
	o := m.o
	k.set(&o)
	if err := m.change(ctx, o.manifests()); err != nil {
		return Sample{}, err
	}
	client, server := "client", "server"
	if k.single {
		client, server = client+single, server+single
	}
	return m.measure(ctx, m.throughSidecars(Sidecar, client, server), c)
}

// change replaces the manifests, and returns when all proxies have accepted what follows from it,
// and have nothing left of what was before.
func (m *mesh) change(ctx context.Context, manifests string) error {
	if manifests == m.manifests {
		return nil
	}
	before := m.pipeline.Snapshot().Generation
	if err := m.write(meshFile, manifests); err != nil {
		return err
	}
	m.manifests = manifests
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for m.pipeline.Snapshot().Generation == before {
		select {
		case <-ctx.Done():
			return fmt.Errorf("changed manifests have no effect: %w", ctx.Err())
		case <-again.C:
		}
	}
	if err := m.await(ctx); err != nil {
		return err
	}
	return m.drained(ctx)
}

// resultOf puts the rounds of a knob together.
func resultOf(k knob, rounds, without []Sample) KnobResult {
	r := KnobResult{Name: k.name, API: k.api}
	ratios := make([]float64, len(rounds))
	var whole PathResult
	for i, s := range rounds {
		ratios[i] = ratio(perRequest(s), perRequest(without[i]))
		whole.add(s)
	}
	r.Caller, r.Called = whole.Proxies[0].Cores(), whole.Proxies[1].Cores()
	r.Ratio, r.Low, r.High = interval(ratios)
	for _, f := range []*float64{&r.Ratio, &r.Low, &r.High} {
		if math.IsNaN(*f) || math.IsInf(*f, 0) {
			*f = 0 // JSON has no number for it
		}
	}
	r.Latency, r.Failed = latencyOf(whole.result.Latency), whole.Failed+whole.Unsent
	return r
}

// Title says in a few lines what was measured.
func (r KnobReport) Title() string {
	rate := fmt.Sprintf("%.0f a second", r.QPS)
	if r.QPS == 0 {
		rate = "as many as get answers"
	}
	return fmt.Sprintf("%s, %d bytes, %s over %d connections, mutual TLS %v, %d workers\n%d rounds of %v for each; "+
		"%d CPUs (%s)", r.Protocol, r.Payload, rate, r.Connections, r.MutualTLS, r.Workers, r.Rounds,
		time.Duration(r.Duration), r.Machine.Cores, r.Machine.CPU)
}

// Table has a row for each knob.
func (r KnobReport) Table() terminal.Table {
	t := terminal.Table{Header: []string{
		"KNOB", "SET BY", "CALLER vCPU per 1,000/s", "CALLED", "OF OFF", "95 %", "p50 ms", "p99",
	}}
	for _, k := range r.Knobs {
		interval := "one round"
		if r.Rounds > 1 {
			interval = fmt.Sprintf("%.2f to %.2f", k.Low, k.High)
		}
		t.Row(k.Name, k.API, fmt.Sprintf("%.3f", k.Caller), fmt.Sprintf("%.3f", k.Called), fmt.Sprintf("%.2f", k.Ratio),
			interval, milliseconds(k.Latency.P50), milliseconds(k.Latency.P99))
	}
	return t
}

// Failed returns how many requests were not answered.
func (r KnobReport) Failed() (n int) {
	for _, k := range r.Knobs {
		n += k.Failed
	}
	return n
}
