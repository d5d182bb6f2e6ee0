package advise

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/sizing"
)

// Signal is one of the four golden signals.
type Signal string

// The golden signals.
const (
	Latency    Signal = "latency"
	Traffic    Signal = "traffic"
	Errors     Signal = "errors"
	Saturation Signal = "saturation"
)

// State is how a signal stands.
type State string

// The states of a signal.
const (
	OK      State = "ok"
	Off     State = "off"
	Unknown State = "unknown" // there are no metrics
)

// Kind is the kind of a Report in its JSON.
const Kind = "advice"

// Report is what Advise says.
type Report struct {
	Kind string `json:"kind"`
	// Time is when it was asked.
	Time time.Time `json:"time"`
	// Window is how many seconds the metrics cover, 0 without.
	Window     float64       `json:"windowSeconds"`
	Signals    []SignalState `json:"signals"`
	Bottleneck Bottleneck    `json:"bottleneck"`
	Findings   []Finding     `json:"findings"`
	// Notes say what was not looked at, and why.
	Notes []string `json:"notes,omitempty"`
}

// SignalState is how a signal stands, and why.
type SignalState struct {
	Signal   Signal     `json:"signal"`
	State    State      `json:"state"`
	Evidence []Evidence `json:"evidence,omitempty"`
}

// Evidence is a number that was measured. Off is set if it is beyond the threshold.
type Evidence struct {
	Metric    string  `json:"metric"`
	Value     float64 `json:"value"`
	Threshold float64 `json:"threshold,omitempty"`
	Unit      string  `json:"unit,omitempty"`
	Off       bool    `json:"off,omitempty"`
}

// Factor is what limits a control plane.
type Factor string

// The factors, of which one is the bottleneck.
const (
	NoFactor      Factor = "none"
	RateOfChanges Factor = "rate of changes"
	Resources     Factor = "resources"
	NumProxies    Factor = "number of proxies"
	ConfigSize    Factor = "size of configuration"
	PushSlots     Factor = "pushes at a time"
	Elsewhere     Factor = "proxies or platform"
)

// Bottleneck is the factor that limits the control plane now.
type Bottleneck struct {
	Factor Factor `json:"factor"`
	Why    string `json:"why"`
}

// Finding is one piece of advice.
type Finding struct {
	Rule     string     `json:"rule"`
	Signal   Signal     `json:"signal"`
	Lever    string     `json:"lever"`
	Summary  string     `json:"summary"`
	Evidence []Evidence `json:"evidence"`
	Effects  []Effect   `json:"effects"`
	Remedy   Remedy     `json:"remedy"`
}

// Effect is what the model expects of the remedy.
type Effect struct {
	What   string  `json:"what"`
	Unit   string  `json:"unit,omitempty"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// Remedy is the exact thing to apply. One of its first three fields is set, or Text alone.
type Remedy struct {
	// Manifests are objects in YAML, with "---" between them.
	Manifests string `json:"manifests,omitempty"`
	// ExcludeNamespaces are to be left out by meshConfig.discoverySelectors.
	ExcludeNamespaces []string `json:"excludeNamespaces,omitempty"`
	// Variables are environment variables of the control plane.
	Variables map[string]string `json:"variables,omitempty"`
	// Values are of the chart, by their path.
	Values map[string]string `json:"values,omitempty"`
	Text   string            `json:"text,omitempty"`
	// Automatic is set if --apply can do it. ByHand says why it cannot, though it is Manifests or
	// ExcludeNamespaces.
	Automatic bool   `json:"automatic"`
	ByHand    string `json:"byHand,omitempty"`
}

// rule is one lever. find returns what it advises, or nothing.
type rule struct {
	id     string
	signal Signal
	lever  string
	find   func(*diagnosis) []Finding
}

// rules are all levers, in the order in which they are tried: what takes work away comes before
// what adds resources.
func rules() []rule {
	return []rule{
		{"config-refused", Errors, "repair", (*diagnosis).refused},
		{"write-timeouts", Errors, "repair", (*diagnosis).writeTimeouts},
		{"internal-errors", Errors, "repair", (*diagnosis).internalErrors},
		{"sidecar", Traffic, "Sidecar", (*diagnosis).sidecars},
		{"discovery-selectors", Traffic, "meshConfig.discoverySelectors", (*diagnosis).selectors},
		{"noisy-namespace", Traffic, "rate of changes", (*diagnosis).noisy},
		{"gateway-filter", Traffic, "PILOT_FILTER_GATEWAY_CLUSTER_CONFIG", (*diagnosis).gatewayFilter},
		{"dns", Traffic, "ServiceEntry", (*diagnosis).dns},
		{"telemetry", Traffic, "Telemetry", (*diagnosis).telemetry},
		{"debounce", Saturation, "PILOT_DEBOUNCE_AFTER", (*diagnosis).debounce},
		{"throttle", Latency, "PILOT_PUSH_THROTTLE", (*diagnosis).throttle},
		{"balance", Saturation, "connection age", (*diagnosis).balance},
		{"scale-out", Saturation, "replicas", (*diagnosis).scaleOut},
		{"scale-up", Saturation, "CPU", (*diagnosis).scaleUp},
		{"memory", Saturation, "memory", (*diagnosis).memory},
		{"autoscaler", Saturation, "HorizontalPodAutoscaler", (*diagnosis).autoscaler},
		{"slow-proxies", Latency, "proxies or platform", (*diagnosis).slowProxies},
	}
}

// diagnosis is what rules see.
type diagnosis struct {
	*Facts
	model      sizing.Constants
	proxies    sizing.DataPlane
	signals    []SignalState
	bottleneck Bottleneck
}

// Model are the costs by which effects are reckoned.
type Model struct {
	ControlPlane sizing.Constants
	DataPlane    sizing.DataPlane
}

// StoredModel returns the costs that were measured for this version or a slightly older one.
func StoredModel() (m Model, err error) {
	if m.ControlPlane, err = sizing.Stored(); err != nil {
		return m, err
	}
	m.DataPlane, err = sizing.StoredDataPlane()
	return m, err
}

// Advise walks the guide: signals, bottleneck, levers.
func Advise(f *Facts, m Model) Report {
	d := &diagnosis{Facts: f, model: m.ControlPlane, proxies: m.DataPlane}
	d.judge()
	d.bottleneck = d.limitedBy()
	report := Report{Kind: Kind, Time: f.Time, Bottleneck: d.bottleneck, Findings: []Finding{}}
	if len(f.Replicas) > 0 {
		report.Window = f.Replicas[0].Seconds
	}
	for _, r := range rules() {
		for _, found := range r.find(d) {
			found.Rule, found.Signal, found.Lever = r.id, r.signal, r.lever
			if found.Remedy.ByHand != "" {
				found.Remedy.Automatic = false
			}
			report.Findings = append(report.Findings, found)
			d.turnOff(r.signal)
		}
	}
	report.Signals, report.Notes = d.signals, d.notes()
	return report
}

// turnOff marks a signal that a rule found to be off.
func (d *diagnosis) turnOff(s Signal) {
	for i := range d.signals {
		if d.signals[i].Signal == s {
			d.signals[i].State = Off
		}
	}
}

// notes say what was not known.
func (d *diagnosis) notes() (notes []string) {
	if len(d.Replicas) == 0 {
		notes = append(notes, "no metrics of a control plane were read: latency, saturation and errors are not judged")
	}
	if d.Calls.Source == "" {
		notes = append(notes, "who calls whom is not known: a Sidecar names no hosts of other namespaces; want "+
			"--prometheus URL, or proxies that can be asked")
	}
	if d.Events == nil && len(d.Replicas) > 0 {
		notes = append(notes, "events by namespace are not known: only a control plane tells them")
	}
	return notes
}
