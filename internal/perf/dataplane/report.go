package dataplane

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/perf/traffic"
)

// Kind is the kind of the report in its JSON.
const Kind = "data-plane"

// Setup is what the reports of this package say of their run. Times are seconds, sizes bytes.
type Setup struct {
	// Kind tells reports from each other: "data-plane" or "data-plane-knobs".
	Kind     string           `json:"kind"`
	Command  string           `json:"command,omitempty"`
	Lateen   string           `json:"lateen"`
	Start    time.Time        `json:"start"`
	Machine  measure.Machine  `json:"machine"`
	Protocol traffic.Protocol `json:"protocol"`
	Payload  int              `json:"payloadBytes"`
	// Duration is how long each path or knob was measured in each round.
	Duration  Seconds `json:"seconds"`
	Rounds    int     `json:"rounds"`
	MutualTLS bool    `json:"mutualTLS"`
	Workers   int     `json:"workers"`
	// Notes say what a reader should know about the numbers, each once.
	Notes []string `json:"notes,omitempty"`
}

func newSetup(kind string, o Options) Setup {
	return Setup{
		Kind: kind, Lateen: o.Version, Start: time.Now().UTC(), Machine: measure.ThisMachine(),
		Protocol: o.Protocol, Payload: o.Payload, Duration: Seconds(o.Duration), Rounds: o.Rounds,
		MutualTLS: o.MutualTLS, Workers: o.Workers,
	}
}

// Report is the result of one run.
type Report struct {
	Setup
	Telemetry  bool `json:"telemetry"`
	AccessLogs bool `json:"accessLogs"`
	JSONLogs   bool `json:"jsonLogs,omitempty"`
	// Tracing is the percentage of requests whose spans are sent; nil without a tracer.
	Tracing  *float64 `json:"tracingPercent,omitempty"`
	Policies int      `json:"policies"`
	Cases    []Case   `json:"cases"`
}

// Case is one number of requests a second over one number of connections.
type Case struct {
	QPS         float64 `json:"qps"` // 0: as many as get answers
	Connections int     `json:"connections"`
	// Paths are over all rounds.
	Paths []PathResult `json:"paths"`
	// Statements compare the sidecars with the hand-written Envoys.
	Statements []Statement `json:"statements,omitempty"`
	// Samples are the single rounds, in the order in which they were measured.
	Samples []Sample `json:"samples"`
}

// PathResult is one path over all rounds of a case.
type PathResult struct {
	Path     string  `json:"path"`
	Sent     int     `json:"sent"`
	Answered int     `json:"answered"`
	Failed   int     `json:"failed,omitempty"`
	Unsent   int     `json:"unsent,omitempty"`
	QPS      float64 `json:"qps"`
	Latency  Latency `json:"latency"`
	// Added is the latency less that of the baseline.
	Added   *Latency `json:"added,omitempty"`
	Proxies []Proxy  `json:"proxies,omitempty"`
	// result is that of all rounds, for Fortio.
	result traffic.Result
}

// Latency are percentiles of the time from when a request is due until its answer is complete.
type Latency struct {
	P50  Seconds `json:"p50"`
	P75  Seconds `json:"p75"`
	P90  Seconds `json:"p90"`
	P99  Seconds `json:"p99"`
	P999 Seconds `json:"p999"`
	Max  Seconds `json:"max"`
}

func latencyOf(times []time.Duration) Latency {
	d := measure.NewDistribution(times...)
	at := func(q float64) Seconds { return Seconds(d.Quantile(q)) }
	return Latency{P50: at(.5), P75: at(.75), P90: at(.9), P99: at(.99), P999: at(.999), Max: at(1)}
}

func (l Latency) less(o Latency) *Latency {
	return &Latency{
		P50: l.P50 - o.P50, P75: l.P75 - o.P75, P90: l.P90 - o.P90, P99: l.P99 - o.P99, P999: l.P999 - o.P999,
		Max: l.Max - o.Max,
	}
}

func (c *Case) add(s Sample) { c.Samples = append(c.Samples, s) }

// summarize puts the rounds of each path together, and compares.
func (c *Case) summarize(paths []path) {
	for _, p := range paths {
		r := PathResult{Path: p.name}
		for _, s := range c.of(p.name) {
			r.add(s)
		}
		r.Latency, r.QPS = latencyOf(r.result.Latency), r.result.QPS()
		if p.name != Baseline {
			r.Added = r.Latency.less(c.Paths[0].Latency)
		}
		c.Paths = append(c.Paths, r)
	}
	c.Statements = statements(c.of(Sidecar), c.of(Handwritten))
}

// of returns the samples of a path, by rounds.
func (c *Case) of(path string) (all []Sample) {
	for _, s := range c.Samples {
		if s.Path == path {
			all = append(all, s)
		}
	}
	return all
}

func (r *PathResult) add(s Sample) {
	r.Sent += s.Sent
	r.Answered += s.Answered
	r.Failed += s.Failed
	r.Unsent += s.Unsent
	if r.Proxies == nil {
		r.Proxies = make([]Proxy, len(s.Proxies))
	}
	for i, p := range s.Proxies {
		sum := &r.Proxies[i]
		sum.Name, sum.CPU, sum.Requests = p.Name, sum.CPU+p.CPU, sum.Requests+p.Requests
		sum.Resident = max(sum.Resident, p.Resident)
	}
	if r.result.Errors == nil {
		r.result = traffic.Result{Load: s.result.Load, Start: s.result.Start, Errors: map[string]int{}}
	}
	r.result.Elapsed += s.result.Elapsed
	r.result.Latency = append(r.result.Latency, s.result.Latency...)
	r.result.Answered += s.result.Answered
	for reason, n := range s.result.Errors {
		r.result.Errors[reason] += n
	}
}

// Failed returns how many requests were not answered.
func (r Report) Failed() (n int) {
	for _, c := range r.Cases {
		for _, p := range c.Paths {
			n += p.Failed + p.Unsent
		}
	}
	return n
}

// SaveFortio writes a result in Fortio's format for each path of each case into a directory.
func (r Report) SaveFortio(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range r.Cases {
		for _, p := range c.Paths {
			if _, err := p.result.Fortio(r.Lateen).Save(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// ParseReport reads a report from its JSON.
func ParseReport(encoded []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(encoded, &r); err != nil {
		return r, err
	}
	if r.Kind != Kind {
		return r, fmt.Errorf("kind %q: want %q, a report of lateen perf data-plane", r.Kind, Kind)
	}
	return r, nil
}
