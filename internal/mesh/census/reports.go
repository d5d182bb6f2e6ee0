package census

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// Reports are what proxies log and trace while no Telemetry of a namespace or of a workload says
// otherwise.
type Reports struct {
	// AccessLogs is set if a proxy writes a line for each request, on either side of a call.
	AccessLogs bool `json:"accessLogs,omitempty"`
	// LegacyLogs is set if accessLogFile or enableEnvoyAccessLogService asks for these lines. A
	// Telemetry that names no providers leaves them.
	LegacyLogs bool `json:"legacyLogs,omitempty"`
	// Sampling is the percentage of requests that are traced; 0 without a tracer.
	Sampling float64 `json:"samplingPercent,omitempty"`
	// Telemetry is the name of the Telemetry for the whole mesh. A second one is not in force.
	Telemetry string `json:"meshTelemetry,omitempty"`
}

// reportsOf merges the mesh configuration with the Telemetry for the whole mesh.
func reportsOf(w *state.Snapshot) (r Reports) {
	class := scope.NewClassifier().Classify(w, scope.Proxy{Type: scope.Sidecar, Namespace: w.Mesh.RootNamespace})
	wide := scope.New(w, &class).Telemetries()
	for _, t := range wide {
		r.Telemetry = t.Name
	}
	for _, side := range []model.WorkloadMode{model.ClientMode, model.ServerMode} {
		logs := model.MergedLogs(w.Mesh, wide, side)
		for _, log := range logs {
			r.AccessLogs = r.AccessLogs || log.Filter == ""
		}
		r.LegacyLogs = r.LegacyLogs || len(logs) > 0 && slices.Equal(logs, w.Mesh.LegacyLogs)
		tracing := model.MergedTracing(w.Mesh, wide, side)
		r.Sampling = max(r.Sampling, float64(tracing.Sampling)/float64(model.SamplePercent))
	}
	return r
}
