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
	at := r.workloadAddress(p, &in.Spec, true)
	if r.converter.cluster && isOwnMachine(at.Address) {
		r.fail(p.dot("address"), at.Address, "leads to the machine of whoever calls it", "the address of the workload")
	}
	labels := map[string]string{}
	maps.Copy(labels, in.Spec.GetLabels())
	maps.Copy(labels, in.GetLabels()) // those of the object come first, as with Istio
	labels = withTLSMode(labels, at.Account)
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

// withTLSMode adds that a workload takes mutual TLS of the mesh, unless its labels say anything of
// that: an account of the mesh means that there is a sidecar.
func withTLSMode(labels map[string]string, account string) map[string]string {
	if _, says := labels[model.TLSModeLabel]; says || account == "" {
		return labels
	}
	with := map[string]string{model.TLSModeLabel: model.TLSModeIstio}
	maps.Copy(with, labels)
	return with
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
