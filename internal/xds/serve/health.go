package serve

import "google.golang.org/genproto/googleapis/rpc/code"

// HealthType is the type with which Istio's agent tells of the health of the workload beside it.
const HealthType = "type.googleapis.com/istio.v1.HealthInformation"

// Health is what an agent tells of the workload beside it. It tells what has changed.
type Health struct {
	Healthy bool
	Message string // why it is not; what the client sent
}

func (r *request) isHealth() bool { return r.TypeURL == HealthType }

// reportHealth passes on what an agent tells. It gets no answer.
func (st *stream) reportHealth(r *request) {
	h := Health{Healthy: r.Nack == nil || r.Nack.Code == int32(code.Code_OK) && r.Nack.Message == ""}
	if !h.Healthy {
		h.Message = untrusted(r.Nack.Message)
	}
	report := st.server.options.Health
	if report == nil || !report(st.conn, h) {
		st.server.options.Metrics.Drops.WithLabelValues("health_of_no_entry").Inc()
		st.warnSometimes("health_of_no_entry", "an agent tells of the health of a workload that has no WorkloadEntry "+
			"of its own; want AUTO_REGISTER_GROUP or WORKLOAD_ENTRY in its metadata", "healthy", h.Healthy)
	}
}
