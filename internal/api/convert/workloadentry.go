package convert

import (
	"maps"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// workloadEntry gives nothing if a field is wrong: calls might go to a wrong place.
func (r *reader) workloadEntry(in *networkingv1.WorkloadEntry) []Object {
	p, start := path("spec"), r.mark()
	at := r.workloadAddress(p, &in.Spec, false)
	if r.converter.cluster && isOwnMachine(at.Address) {
		r.fail(p.dot("address"), at.Address, "leads to the machine of whoever calls it", "the address of the workload")
	}
	labels := maps.Clone(in.Spec.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, in.GetLabels()) // those of the object come first, as with Istio
	if _, says := labels[model.TLSModeLabel]; !says && at.Account != "" {
		labels[model.TLSModeLabel] = model.TLSModeIstio // an account of the mesh says that there is a sidecar
	}
	w := &model.WorkloadEntry{
		Meta:     r.meta,
		Labels:   r.labels(p.dot("labels"), labels),
		Address:  at.Address,
		Weight:   at.Weight,
		Locality: at.Locality,
		Account:  at.Account,
		Ports:    model.PortNamesOf(r.workloadPorts(p.dot("ports"), &in.Spec)),
	}
	r.reportUnused(p, in.Spec.ProtoReflect())
	if r.failure(start, p) != "" {
		return nil
	}
	if !isHealthy(in) {
		w.Health, w.Withheld = model.Unhealthy, !r.unready
	}
	return []Object{w}
}

// isHealthy reports whether the last health check of a WorkloadEntry succeeded, or nobody checks
// it. A check without a result yet counts as failed.
func isHealthy(in *networkingv1.WorkloadEntry) bool {
	if _, checked := in.GetAnnotations()[kinds.HealthAnnotation]; !checked {
		return true
	}
	for _, c := range in.Status.GetConditions() {
		if c.GetType() == kinds.Of(kinds.WorkloadEntry).Watch.Condition {
			return c.GetStatus() == "True"
		}
	}
	return false
}
