package model

import "time"

// Tracer is where proxies send spans, and how.
type Tracer struct {
	// Name is that of the provider; empty for the one of defaultConfig.
	Name string
	Kind TracerKind
	// Host and Port are those of the receiver.
	Host Host
	Port uint16
	// MaxPathLength limits the tag with the path, in bytes; 0 leaves Envoy's 256.
	MaxPathLength uint32
	// Path is that of the receiver's API, by HTTP.
	Path    string
	Timeout time.Duration // of a report; 0 leaves the default
	// Headers go with each report.
	Headers []SecretHeader
	// ByHTTP reports to an OpenTelemetry receiver by HTTP, else by gRPC.
	ByHTTP bool
	// ShortIDs makes ids of traces of 64 bits, for Zipkin; else they have 128.
	ShortIDs bool
	// AlsoW3C reads and writes the header traceparent beside Zipkin's.
	AlsoW3C bool
}

// SecretHeader is a header whose value may be a credential, as a collector's token.
type SecretHeader struct {
	Name  string
	Value Sensitive
}

// TracerKind is a protocol of spans.
type TracerKind uint8

// The protocols.
const (
	TraceOpenTelemetry TracerKind = iota
	TraceZipkin
	TraceDatadog
	TraceSkyWalking
)

// TraceTag is a tag of spans beside those that Envoy sets.
type TraceTag struct {
	Name   string
	Source TagSource
	// Key is the name of the environment variable or the header.
	Key string
	// Value is the literal, the format string, or what stands in where there is no value.
	Value string
}

// TagSource is where the value of a tag comes from.
type TagSource uint8

// The sources.
const (
	TagLiteral TagSource = iota
	TagEnvironment
	TagHeader
	TagFormat
)

// Percentages of samples are in hundredths of a percent, as Envoy takes them.
const (
	// SamplePercent is one percent.
	SamplePercent = 100
	// SampleAll is all requests.
	SampleAll = 100 * SamplePercent
)

// TracingRule is one entry of tracing. What is nil it leaves as the level above says.
type TracingRule struct {
	Mode WorkloadMode
	// Inherits takes the provider of the level above, else Tracer counts; nil traces nothing.
	Inherits bool
	Tracer   *Tracer // canonical
	// Sampling is in hundredths of a percent.
	Sampling *uint32
	// Disabled reports no spans.
	Disabled *bool
	// Tags replace those of the level above, if there are any.
	Tags []TraceTag
	// KeepsRequestID does not write into the request id whether the request is traced.
	KeepsRequestID *bool
	// IstioTags adds the tags that say whose span it is.
	IstioTags *bool
	// NoContext sends no headers of traces on.
	NoContext *bool
}

// Tracing is how calls on one side are traced.
type Tracing struct {
	Tracer *Tracer // canonical; nil: they are not
	// Sampling is in hundredths of a percent of the requests that do not come with a decision.
	Sampling uint32
	// MaxPathLength counts where the Tracer has none; 0 leaves Envoy's 256.
	MaxPathLength  uint32
	Tags           []TraceTag
	KeepsRequestID bool
	NoIstioTags    bool
	NoContext      bool
}

// MergedTracing returns how calls on one side are traced. The Telemetries are those of the mesh,
// the namespace and the workload, in this order. What a nearer one sets replaces what others set.
func MergedTracing(mesh *MeshConfig, levels []*Telemetry, side WorkloadMode) Tracing {
	out, disabled, said := mesh.Tracing, false, false
	for _, t := range levels {
		if len(t.Tracing) > 0 && !said {
			said = true
			out.NoIstioTags = false // defaultConfig says it of the tracer there
			if mesh.LegacyTracer {
				out.Tracer = nil
			}
		}
		for _, rule := range t.Tracing {
			if rule.Mode.covers(side) {
				rule.applyTo(&out)
				set(&disabled, rule.Disabled)
			}
		}
	}
	if disabled || out.Tracer == nil {
		return Tracing{}
	}
	return out
}

func (r *TracingRule) applyTo(out *Tracing) {
	if !r.Inherits {
		out.Tracer = r.Tracer
	}
	if len(r.Tags) > 0 {
		out.Tags = r.Tags
	}
	set(&out.Sampling, r.Sampling)
	set(&out.KeepsRequestID, r.KeepsRequestID)
	set(&out.NoContext, r.NoContext)
	if r.IstioTags != nil {
		out.NoIstioTags = !*r.IstioTags
	}
}

// set overwrites a value, if there is another.
func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
