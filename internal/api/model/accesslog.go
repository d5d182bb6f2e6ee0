package model

import "iter"

// AccessLog is where proxies log requests and connections, and in which form: a file, or a receiver
// that they call by gRPC.
type AccessLog struct {
	Kind AccessLogKind
	// Path is that of a file.
	Path string
	// Text is a format string of Envoy, the line of a file or the body of an OpenTelemetry record;
	// empty for Istio's.
	Text string
	// AsJSON writes JSON to a file in the place of Text: an object whose texts are format strings.
	// Empty stands for Istio's.
	AsJSON bool
	JSON   string
	// OmitEmpty leaves out fields without a value.
	OmitEmpty bool
	// Host and Port are those of the receiver, which gets LogName with each entry.
	Host    Host
	Port    uint16
	LogName string
	// RequestHeaders, ResponseHeaders and ResponseTrailers go with an entry about a request.
	RequestHeaders, ResponseHeaders, ResponseTrailers []string
	// FilterState are objects of the filter state that go with an entry.
	FilterState []string
	// Attributes are those of an OpenTelemetry record, whose values are format strings.
	Attributes []Header
	// Filter is an expression in CEL that says which entries are logged; empty for all.
	Filter string
}

// BuiltinLog is the provider that every mesh has, as in Istio: the standard output of the proxy, in
// the form that the mesh configuration gives accessLogFile.
const (
	BuiltinLog     = "envoy"
	StandardOutput = "/dev/stdout"
)

// AccessLogKind is how entries of an access log leave the proxy.
type AccessLogKind uint8

const (
	// LogFile appends to a file.
	LogFile AccessLogKind = iota
	// LogHTTP calls Envoy's AccessLogService with entries about requests.
	LogHTTP
	// LogTCP calls it with entries about connections.
	LogTCP
	// LogOpenTelemetry calls OpenTelemetry's LogsService.
	LogOpenTelemetry
)

// ProviderHosts yields the hosts that proxies call on their own, as authorizers, for access logs
// and for traces. One may come twice.
func (m *MeshConfig) ProviderHosts() iter.Seq[Host] {
	return func(yield func(Host) bool) {
		for _, a := range m.ExtAuthz {
			if !yield(a.Host) {
				return
			}
		}
		for _, l := range m.LegacyLogs {
			if l.Kind != LogFile && !yield(l.Host) {
				return
			}
		}
		for _, p := range m.LogProviders {
			if p.Log.Kind != LogFile && !yield(p.Log.Host) {
				return
			}
		}
		for _, t := range m.Tracers {
			if !yield(t.Host) {
				return
			}
		}
		if t := m.Tracing.Tracer; t != nil {
			yield(t.Host)
		}
	}
}
